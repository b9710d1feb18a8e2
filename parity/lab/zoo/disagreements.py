"""Where reference readers, the format's document and what is due do not agree, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES = {"torch": "torch with weights_only", "torch-full": "torch without weights_only"}
_VERBS = {
    "loaded": "reads it",
    "refused": "refuses it",
    "crashed": "crashes on it",
    "limit": "runs out of time or memory on it",
}
#: What every reader says where there is nothing to explain.
_UNREMARKABLE = {"load": "loaded", "refuse": "refused", "either": "loaded"}


def explain_disagreement(
    expect: str, rule: str, answers: Mapping[str, str], *, against: bool = False
) -> str:
    """Why a case is not plain: what each reader says to it, and where the rule stands.

    Args:
        expect: ``load``, ``refuse`` or ``either``.
        rule: The section of a document, or what else the bundle goes by.
        said: Class by reader.
        against: The rule speaks against what a reader loads.

    Returns:
        One sentence without its full stop; empty where every reader says what is due, and
        what may be either is read by all, and nothing speaks against it.
    """
    if not answers or (set(answers.values()) == {_UNREMARKABLE[expect]} and not against):
        return ""
    text = ", ".join(_format_clauses(expect, answers))
    return f"{text}{_format_rule_prefix(expect, answers, against=against)}{rule}" if rule else text


def _format_rule_prefix(expect: str, answers: Mapping[str, str], *, against: bool) -> str:
    """How the rule is led in."""
    refuse = expect == "refuse"
    if (refuse or against) and "loaded" in answers.values():
        return ", against "
    return "; a refusal is due by " if refuse else "; "


def _format_clauses(expect: str, answers: Mapping[str, str]) -> list[str]:
    """What each reader says; torch's two are one where they agree."""
    if len(answers) > 1 and answers.get("torch") == answers.get("torch-full"):
        return [f"torch {_choose_verb(expect, answers['torch'])}"]
    return [
        f"{_NAMES.get(reader, reader)} {_choose_verb(expect, answers[reader])}"
        for reader in answers
    ]


def _choose_verb(expect: str, word: str) -> str:
    is_accepted = expect == "refuse" and word == "loaded"
    return "takes it" if is_accepted else _VERBS.get(word, word)
