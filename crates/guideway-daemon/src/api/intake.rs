//! Where bodies of requests come in: each is bounded, and so are the large ones together, since a configuration takes many
//! times its size while it is read.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::Body as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::problem::{Kind, Refusal};

/// The largest body that is taken, bytes: a configuration.
const MAX_BODY: usize = 16 << 20;

/// A body up to so many bytes needs no room: what operators say of a backend never waits for configurations.
const SMALL: usize = 64 << 10;

/// The large bodies that are there at a time, bytes together.
const TOGETHER: usize = 2 * MAX_BODY;

/// A body has to be there so long after its head.
const WITHIN: Duration = Duration::from_secs(30);

/// Of a body that is too large so much is read and thrown away, in so long: who is still sending does not hear the answer.
const THROWN_AWAY: usize = 4 * MAX_BODY;
const THROWN_AWAY_WITHIN: Duration = Duration::from_secs(5);

/// The room for large bodies.
#[derive(Debug, Clone)]
pub(super) struct Intake(Arc<Semaphore>);

/// A body, with the room that it takes as long as it is there.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

impl Intake {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(TOGETHER)))
    }

    /// Takes a body. `asks_first`: whoever sends it waits until it is asked for.
    pub(super) async fn take(&self, mut body: Body, asks_first: bool) -> Result<Taken, Refusal> {
        if body.size_hint().lower() > MAX_BODY as u64 {
            if !asks_first {
                throw_away(&mut body).await;
            }
            return Err(too_large());
        }
        match timeout(WITHIN, self.collect(&mut body)).await {
            Ok(Ok(Some(taken))) => Ok(taken),
            Ok(Ok(None)) => {
                throw_away(&mut body).await;
                Err(too_large())
            }
            Ok(Err(refusal)) => Err(refusal),
            Err(_) if self.0.available_permits() < MAX_BODY => {
                let detail = "other large bodies are being read; try again in a while";
                Err(Refusal::new(Kind::Crowded, detail))
            }
            Err(_) => {
                let detail = format!("the body did not come within {} s", WITHIN.as_secs());
                Err(Refusal::new(Kind::TooSlow, detail))
            }
        }
    }

    /// The body; `None` where it is too large.
    async fn collect(&self, body: &mut Body) -> Result<Option<Taken>, Refusal> {
        let (mut bytes, mut room) = (Vec::new(), None);
        while let Some(data) = next(body).await {
            let data = data.map_err(|error| Refusal::bad(format!("the body ends too early: {error}")))?;
            let length = bytes.len() + data.len();
            if length > MAX_BODY {
                return Ok(None);
            }
            if length > SMALL && room.is_none() {
                let whole = body.size_hint().exact().map_or(MAX_BODY as u64, |rest| rest + length as u64);
                let whole = u32::try_from(whole.min(MAX_BODY as u64)).unwrap_or(u32::MAX);
                let taken = Arc::clone(&self.0).acquire_many_owned(whole).await;
                room = Some(taken.map_err(|_| Refusal::ending())?);
            }
            bytes.extend_from_slice(&data);
        }
        Ok(Some(Taken { bytes: bytes.into(), _room: room }))
    }
}

/// The next part of a body.
async fn next(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    loop {
        match poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await? {
            // Trailers say nothing here.
            Ok(frame) => match frame.into_data() {
                Ok(data) => return Some(Ok(data)),
                Err(_) => continue,
            },
            Err(error) => return Some(Err(error)),
        }
    }
}

async fn throw_away(body: &mut Body) {
    let mut left = THROWN_AWAY;
    let all = async {
        while let Some(Ok(data)) = next(body).await {
            left = left.saturating_sub(data.len());
            if left == 0 {
                break;
            }
        }
    };
    // Who is slower than that may be cut off.
    drop(timeout(THROWN_AWAY_WITHIN, all).await);
}

fn too_large() -> Refusal {
    let most = MAX_BODY >> 20;
    Refusal::new(Kind::TooLarge, format!("the body is too large; {most} MiB are taken at most"))
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::Poll;

    use super::*;

    /// Whether something waits.
    async fn waits<T>(future: Pin<&mut impl Future<Output = T>>) -> bool {
        let mut future = future;
        poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
    }

    #[tokio::test]
    async fn large_bodies_have_room_together_and_small_ones_need_none() {
        let intake = Intake::new();
        let large = || Body::from(vec![b'x'; MAX_BODY]);
        let first = intake.take(large(), false).await.unwrap();
        let second = intake.take(large(), false).await.unwrap();
        let third = intake.take(large(), false);
        let mut third = std::pin::pin!(third);
        assert!(waits(third.as_mut()).await);
        let small = intake.take(Body::from(vec![b'x'; SMALL]), false).await.unwrap();
        assert_eq!(small.bytes.len(), SMALL);
        drop(first);
        assert_eq!(third.await.unwrap().bytes.len(), MAX_BODY);
        drop(second);
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_is_refused_and_leaves_no_room_taken() {
        let intake = Intake::new();
        let refused = intake.take(Body::from(vec![b'x'; MAX_BODY + 1]), false).await.unwrap_err();
        assert_eq!(refused.kind, Kind::TooLarge);
        assert_eq!(intake.0.available_permits(), TOGETHER);
    }
}
