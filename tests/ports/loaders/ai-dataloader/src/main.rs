//! Print the batches of ids that a loader delivers, a JSON list a line.
//!
//! `ai-loader ITEMS BATCH indexable|iterable keep|drop`

use ai_dataloader::{indexable, iterable};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [items, batch, kind, last] = words.as_slice() else {
        panic!("expected ITEMS BATCH indexable|iterable keep|drop");
    };
    let ids: Vec<i64> = (0..items.parse().expect("a number")).collect();
    let size: usize = batch.parse().expect("a number");
    if kind == "indexable" {
        let mut builder = indexable::DataLoader::builder(ids).shuffle().batch_size(size);
        if last == "drop" {
            builder = builder.drop_last();
        }
        for batch in builder.build().iter() {
            println!("{:?}", batch.to_vec());
        }
    } else {
        let mut builder = iterable::DataLoader::builder(ids).shuffle().batch_size(size);
        if last == "drop" {
            builder = builder.drop_last();
        }
        for batch in builder.build().iter() {
            println!("{:?}", batch.to_vec());
        }
    }
}
