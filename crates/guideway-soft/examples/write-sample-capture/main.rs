//! Writes `docs/sample.pcap`, or the file that is named: the capture of the first command of the README.
//!
//! ```sh
//! cargo run -p guideway-soft --example write-sample-capture
//! ```

mod traffic;

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;

use guideway_soft::capture::Writer;

fn main() -> io::Result<()> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sample.pcap");
    let path = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| default.into()));
    let mut writer = Writer::new(BufWriter::new(File::create(&path)?))?;
    let frames = traffic::frames();
    for (timestamp_ns, frame) in &frames {
        writer.write(*timestamp_ns, frame)?;
    }
    writer.finish()?;
    println!("{}: {} frames", path.display(), frames.len());
    Ok(())
}
