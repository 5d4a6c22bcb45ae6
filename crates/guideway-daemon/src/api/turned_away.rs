//! Connections without a place: whoever is at the other end hears why, whatever it asks.
//!
//! A socket that is closed while something in it is unread resets its connection, and a client that finds it reset may not look for
//! an answer any more. So what it sends is read, and thrown away.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::problem::{Kind, MEDIA_TYPE, Refusal};

/// Whoever is heard out has to ask, and to take the reason, within this time.
const REASON_WITHIN: Duration = Duration::from_secs(1);

/// A new connection has room for the reason at once; it is not waited for longer than this.
const AT_ONCE: Duration = Duration::from_millis(50);

/// What is thrown away at a time, bytes.
const SCRAP: usize = 4 << 10;

/// So many times at most where nobody is waited for: more than a socket holds.
const SCRAPS: usize = 64;

/// Waits for a question, answers it, and waits for the other end to close.
pub(super) async fn hear_out(mut io: impl AsyncRead + AsyncWrite + Unpin) {
    let told = async {
        let mut scrap = [0; SCRAP];
        // Whoever asks nothing hears nothing.
        if io.read(&mut scrap).await? > 0 {
            io.write_all(&reason()).await?;
            io.shutdown().await?;
            while io.read(&mut scrap).await? > 0 {}
        }
        io::Result::Ok(())
    };
    drop(timeout(REASON_WITHIN, told).await);
}

/// Answers before anything is asked, and waits for nobody: for those who come while many are heard out.
pub(super) async fn dismiss(mut io: impl AsyncRead + AsyncWrite + Unpin) {
    let told = async {
        io.write_all(&reason()).await?;
        io.shutdown().await?;
        // The runtime has to look once to know what has come.
        yield_now().await;
        let mut scrap = [0; SCRAP];
        for _ in 0..SCRAPS {
            let mut read = pin!(io.read(&mut scrap));
            let come = poll_fn(|context| Poll::Ready(read.as_mut().poll(context))).await;
            if !matches!(come, Poll::Ready(Ok(1..))) {
                break;
            }
        }
        io::Result::Ok(())
    };
    drop(timeout(AT_ONCE, told).await);
}

fn reason() -> Vec<u8> {
    let detail = "too many connections are open, of all or of you alone; close some, or try again in a while";
    let problem = Refusal::new(Kind::Crowded, detail).into_problem();
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let (status, title, length) = (problem.status, problem.title, body.len());
    format!(
        "HTTP/1.1 {status} {title}\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixStream;

    use super::*;

    #[tokio::test]
    async fn a_question_that_is_long_is_answered_and_its_connection_not_reset() {
        for is_heard_out in [true, false] {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            ours.write_all(b"POST /v1/plan HTTP/1.1\r\nContent-Length: 50000\r\n\r\n").await.unwrap();
            ours.write_all(&[b' '; 50_000]).await.unwrap();
            if is_heard_out {
                // Its other end closes when it has heard.
                tokio::spawn(hear_out(theirs));
            } else {
                dismiss(theirs).await;
            }
            let mut heard = String::new();
            ours.read_to_string(&mut heard).await.unwrap();
            let (head, body) = heard.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{head}");
            assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(body).unwrap()["type"], "crowded");
        }
    }
}
