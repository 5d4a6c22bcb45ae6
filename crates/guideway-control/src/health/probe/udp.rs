//! A datagram, and an answer to it.

use super::progress::Progress;
use super::transport::Transport;
use crate::health::round::{Fault, Stage};

pub(super) async fn ask(
    transport: &Transport,
    send: &[u8],
    expect: Option<&str>,
    progress: &Progress,
) -> Result<(), Fault> {
    let socket = transport.datagrams(progress)?;
    progress.enter(Stage::Datagram);
    socket.send(send).await.map_err(|error| progress.fault(&error))?;
    let wanted = expect.unwrap_or_default();
    // What is beyond the text that is looked for is cut off.
    let mut answer = vec![0; wanted.len().max(1)];
    let length = socket.recv(&mut answer).await.map_err(|error| progress.fault(&error))?;
    if answer[..length] == *wanted.as_bytes() || wanted.is_empty() {
        Ok(())
    } else {
        Err(Fault::Datagram { wanted: wanted.to_owned() })
    }
}
