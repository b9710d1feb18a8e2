"""The vocabulary of findings and errors: one list, each word with what it means.

``docs/findings.md`` explains each with an example and what to do.
"""

from __future__ import annotations

VOCABULARY: dict[str, str] = {
    # Loaders.
    "batch-missing": "a batch file is missing, or there is none",
    "batch-count": "more or fewer batches than the reference has",
    "batch-size": "a batch holds more or fewer items than the reference's",
    "tensor-count": "a batch file holds another number of tensors than it should",
    "shape": "a tensor has another shape than it should",
    "item-twice": "an item came more often than it was due",
    "item-missing": "an item that was due never came",
    "item-not-due": "an item came that the reference does not deliver",
    "item-unknown": "a row is no item of the data set",
    "order": "the right items in another order than is owed",
    "label": "a label is not the one of the item that it came with",
    "labels-rolled": "labels are shifted against features",
    "values": "values differ by more than the bound",
    "nan": "NaN or infinity where the reference has a number",
    "not-shuffled": "a shuffle that arrives in the data set's order",
    "contradiction": "what the port says contradicts what it wrote",
    "nondeterministic": "two runs of one case differ",
    # Dump files that cannot be read.
    "truncated": "a file ends before its data does",
    "trailing-bytes": "bytes follow the data that the header announces",
    "bad-header": "a header that no file of this format can have",
    "unreadable": "a file that the system does not let us read",
    "too-large": "a file far larger than its reference",
    "dump-borrowed": "a dump that is a link, or the reference itself",
    # Bundles.
    "no-cases": "a bundle without a case",
    "reference-malformed": "a bundle whose own files do not hold together",
    "store-repaired": "the store held damaged data, which was made again",
    # The run.
    "nothing-verified": "fewer cases were verified than --min-cases",
    "known-failure-passes": "a known failure that no longer fails",
}
