//! What an input pipeline is held to: membership, order, alignment, the last
//! batch, and resumption.

use super::*;

const ORDER: [i64; 11] = [9, 10, 4, 1, 0, 7, 6, 8, 2, 5, 3];

fn pipeline(config: &str) -> Pipeline {
    let records = Records::lesson().unwrap();
    Pipeline::new(records, Config::named(config).unwrap()).unwrap()
}

fn batches(config: &str, start: usize) -> Vec<Batch> {
    let pipeline = pipeline(config);
    let cursor = pipeline.cursor(17, 0, start).unwrap();
    pipeline.batches_from(&cursor).unwrap()
}

fn real_ids(batches: &[Batch]) -> Vec<i64> {
    let ids = batches.iter().flat_map(|batch| batch.ids.iter().copied());
    ids.filter(|&id| id != PADDING_ID).collect()
}

#[test]
fn the_last_batch_follows_the_policy() {
    let cases: [(&str, &[usize], &[i64]); 13] = [
        ("sequential", &[4, 4, 3], &[]),
        ("keep", &[4, 4, 3], &[]),
        ("drop", &[4, 4], &[2, 3, 5]),
        ("pad", &[4, 4, 4], &[]),
        ("keep-batch-1", &[1; 11], &[]),
        ("keep-batch-3", &[3, 3, 3, 2], &[]),
        ("drop-batch-5", &[5, 5], &[3]),
        ("drop-batch-3", &[3, 3, 3], &[3, 5]),
        ("drop-batch-11", &[11], &[]),
        ("drop-batch-16", &[], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        ("pad-batch-11", &[11], &[]),
        ("pad-batch-16", &[16], &[]),
        ("keep-batch-16", &[11], &[]),
    ];
    for (config, sizes, omitted) in cases {
        let lengths: Vec<usize> = batches(config, 0).iter().map(Batch::len).collect();
        assert_eq!(lengths, sizes, "{config}");
        assert_eq!(
            pipeline(config).omitted(17, 0).unwrap(),
            omitted,
            "{config}"
        );
    }
}

#[test]
fn every_record_comes_once_in_the_order_of_the_epoch() {
    for config in ["keep", "pad", "keep-batch-5", "pad-batch-16"] {
        assert_eq!(real_ids(&batches(config, 0)), ORDER, "{config}");
    }
    assert_eq!(real_ids(&batches("drop", 0)), ORDER[..8]);
    let plain: Vec<i64> = (0..=10).collect();
    assert_eq!(real_ids(&batches("sequential", 0)), plain);
    assert_eq!(pipeline("drop").ordered_ids(17, 0).unwrap(), ORDER);
}

#[test]
fn features_and_labels_stay_with_their_record() {
    let records = Records::lesson().unwrap();
    for batch in batches("pad", 0) {
        for (slot, &id) in batch.ids.iter().enumerate().filter(|(_, &id)| id >= 0) {
            let record = records.get(usize::try_from(id).unwrap()).unwrap();
            assert_eq!(batch.x[slot].to_bits(), record.x.to_bits());
            assert_eq!(batch.y[slot].to_bits(), record.y.to_bits());
        }
    }
}

#[test]
fn padding_moves_no_mean() {
    let (kept, padded) = (batches("keep", 0), batches("pad", 0));
    assert_eq!(masked_mean(&kept[2..]), masked_mean(&padded[2..]));
    assert_eq!(padded[2].mask, [1.0, 1.0, 1.0, 0.0]);
}

#[test]
fn a_resumed_run_is_the_rest_of_the_whole_run() {
    for config in ["sequential", "keep", "drop", "pad", "keep-batch-11"] {
        let whole = batches(config, 0);
        for start in 0..=whole.len() {
            assert_eq!(batches(config, start), whole[start..], "{config} {start}");
        }
    }
    assert_eq!(batches("drop", 3), []);
    assert_eq!(batches("pad", 2)[0].number, 2);
}

#[test]
fn an_epoch_is_a_function_of_seed_and_epoch() {
    let keep = pipeline("keep");
    let order = |seed, epoch| keep.ordered_ids(seed, epoch).unwrap();
    assert_eq!(order(17, 1), [4, 0, 5, 10, 6, 2, 1, 9, 7, 3, 8]);
    assert_eq!(order(17, 0), ORDER);
    assert_ne!(order(18, 0), ORDER);
}

#[test]
fn a_cursor_of_other_records_or_another_batch_size_is_refused() {
    let cursor = pipeline("keep").cursor(17, 0, 1).unwrap();
    let other_size = pipeline("keep-batch-2").batches_from(&cursor);
    let text = "the cursor's batch size is 4, the pipeline's is 2";
    assert_eq!(other_size.unwrap_err().to_string(), text);

    let records = Records::new((0..11).collect(), vec![0.0; 11], vec![0.0; 11]).unwrap();
    let edited = Pipeline::new(records, Config::named("keep").unwrap()).unwrap();
    let error = edited.batches_from(&cursor).unwrap_err().to_string();
    assert!(
        error.starts_with("the cursor's fingerprint is 1a81451a"),
        "{error}"
    );
}

#[test]
fn places_that_are_no_batch_border_are_refused() {
    let keep = pipeline("keep");
    assert!(matches!(keep.cursor(17, 0, 4), Err(Error::BadPosition(_))));
    assert!(keep.cursor(17, 0, usize::MAX).is_err());
    for position in [1, 7, 12, 44] {
        let mut cursor = keep.cursor(17, 0, 0).unwrap();
        cursor.position = position;
        let outcome = keep.batches_from(&cursor);
        assert!(matches!(outcome, Err(Error::BadPosition(_))), "{position}");
    }
}

#[test]
fn impossible_batch_sizes_are_refused() {
    use Policy::{Drop, Keep, Pad};
    for (policy, batch_size, accepted) in [
        (Keep, 0, false),
        (Keep, usize::MAX, true),
        (Drop, usize::MAX, true),
        (Pad, MAX_PADDED, true),
        (Pad, MAX_PADDED + 1, false),
    ] {
        let config = Config {
            batch_size,
            policy,
            shuffle: false,
        };
        let outcome = Pipeline::new(Records::lesson().unwrap(), config);
        assert_eq!(outcome.is_ok(), accepted, "{config:?}");
    }
}
