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
            shortfall: Shortfall::Fill,
        };
        let outcome = Pipeline::new(Records::lesson().unwrap(), config);
        assert_eq!(outcome.is_ok(), accepted, "{config:?}");
    }
}

fn shares(config: &str, world: usize) -> Vec<Vec<i64>> {
    let shard = |rank| pipeline(config).shard(rank, world).unwrap();
    (0..world)
        .map(|rank| shard(rank).ordered_ids(17, 0).unwrap())
        .collect()
}

#[test]
fn ranks_share_one_order() {
    let cases: [(&str, usize, &[&[i64]]); 4] = [
        (
            "keep-fill",
            4,
            &[&[9, 0, 2], &[10, 7, 5], &[4, 6, 3], &[1, 8, 9]],
        ),
        ("keep-trim", 4, &[&[9, 0], &[10, 7], &[4, 6], &[1, 8]]),
        ("keep-uneven", 2, &[&[9, 4, 0, 6, 2, 3], &[10, 1, 7, 8, 5]]),
        ("keep", 1, &[&ORDER]),
    ];
    for (config, world, expected) in cases {
        assert_eq!(shares(config, world), expected, "{config}");
    }
    assert!(pipeline("keep").shard(2, 2).is_err());
}

#[test]
fn a_saved_state_continues_at_every_cut() {
    for config in ["keep", "drop", "pad", "sequential"] {
        let pipeline = pipeline(config);
        let start = pipeline.cursor(17, 0, 0).unwrap();
        let whole = pipeline.batches_from(&start).unwrap();
        let next = pipeline.cursor(17, 1, 0).unwrap();
        for cut in 0..=whole.len() {
            let state = pipeline.save(&pipeline.advance(&start, cut));
            let cursor = pipeline.load(&state, 17).unwrap();
            if cut == whole.len() {
                assert_eq!(cursor, next, "{config}");
            } else {
                assert_eq!(pipeline.batches_from(&cursor).unwrap(), whole[cut..]);
                assert_eq!(pipeline.save(&cursor), state);
            }
        }
    }
}

#[test]
fn states_that_do_not_belong_here_are_refused() {
    let keep = pipeline("keep");
    let state = keep.save(&keep.cursor(17, 0, 1).unwrap());
    assert!(keep.load(&state, 18).is_err());
    assert!(pipeline("keep-batch-2").load(&state, 17).is_err());
    let shard = pipeline("keep").shard(1, 2).unwrap();
    assert!(shard.load(&state, 17).is_err());
    for length in 0..state.len() {
        assert!(keep.load(&state[..length], 17).is_err(), "{length}");
        let mut flipped = state.clone();
        flipped[length] ^= 1;
        assert!(keep.load(&flipped, 17).is_err(), "{length}");
    }
    assert!(keep.load(b"{\"epoch\": 0}\n", 17).is_err());
}

#[test]
fn workers_change_nothing() {
    for config in ["keep", "drop", "pad", "keep-batch-1"] {
        for start in [0, 1, 2] {
            let whole = batches(config, start);
            for workers in [1, 2, 3, 64] {
                let pipeline = pipeline(config).with_workers(workers);
                let cursor = pipeline.cursor(17, 0, start).unwrap();
                assert_eq!(pipeline.batches_from(&cursor).unwrap(), whole, "{workers}");
            }
        }
    }
}

#[test]
fn draws_belong_to_seed_epoch_and_record() {
    let mut seen = Vec::new();
    for (seed, epoch) in [(17, 0), (17, 1), (18, 0)] {
        let pipeline = pipeline("pad");
        let cursor = pipeline.cursor(seed, epoch, 0).unwrap();
        for batch in pipeline.batches_from(&cursor).unwrap() {
            seen.extend(batch.draws.into_iter().zip(batch.ids));
        }
    }
    let mut drawn: Vec<String> = seen
        .iter()
        .filter(|(_, id)| *id != PADDING_ID)
        .map(|(draw, _)| draw.to_string())
        .collect();
    drawn.sort();
    drawn.dedup();
    assert_eq!(drawn.len(), 33);
}
