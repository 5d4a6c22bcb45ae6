//! The published vectors of this crate hold.

use guideway_hash::vectors::{Record, verify};

#[test]
fn all_vectors_hold() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors");
    let mut seen = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let records: Vec<Record> =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for record in &records {
            verify(record)
                .unwrap_or_else(|mismatch| panic!("{}: {}: {mismatch}", path.display(), record.case));
        }
        seen += records.len();
    }
    assert!(seen > 60, "only {seen} records in {directory}");
}
