//! The sample capture in `docs` is what its generator writes.

#[path = "../examples/write-sample-capture/traffic.rs"]
mod traffic;

use guideway_soft::capture::Writer;

#[test]
fn the_sample_in_docs_is_the_generators_output() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for (timestamp_ns, frame) in traffic::frames() {
        writer.write(timestamp_ns, &frame).unwrap();
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sample.pcap");
    let same = std::fs::read(path).unwrap() == writer.finish().unwrap();
    assert!(same, "run `cargo run -p guideway-soft --example write-sample-capture` and look at what changed");
}
