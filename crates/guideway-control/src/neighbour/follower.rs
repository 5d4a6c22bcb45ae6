//! The table's netlink side, for a tokio runtime.

use std::net::IpAddr;
use std::time::Instant;

use guideway_forward::record::backend::NextHop;

use super::Event;
use super::netlink::{Asker, Listener, NetlinkError};
use super::table::NeighbourTable;

/// Follows the next hops of backends in the network namespace in which it was made.
#[derive(Debug)]
pub struct Follower {
    table: NeighbourTable,
    asker: Asker,
    listener: Listener,
}

impl Follower {
    /// Opens its sockets in the network namespace of this thread, inside a tokio runtime.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub fn new() -> Result<Self, NetlinkError> {
        // Listening first: what changes while everything is read is told again.
        let listener = Listener::open()?;
        Ok(Self { table: NeighbourTable::new(Instant::now()), asker: Asker::open()?, listener })
    }

    /// Follows these backends, and no others.
    pub fn follow(&mut self, backends: impl IntoIterator<Item = IpAddr>) {
        self.table.follow(backends, Instant::now());
    }

    /// What is known.
    pub fn table(&self) -> &NeighbourTable {
        &self.table
    }

    /// Waits until next hops change, and tells which. It can be dropped while it waits, and called again: nothing is
    /// lost.
    ///
    /// # Errors
    /// [`NetlinkError`]; it can be called again.
    pub async fn changes(&mut self) -> Result<Vec<(IpAddr, NextHop)>, NetlinkError> {
        loop {
            self.work()?;
            let changes = self.table.changes();
            if !changes.is_empty() {
                return Ok(changes);
            }
            let due = self.table.next_due();
            let time = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                ready = self.listener.readable() => ready?,
                () = time => {}
            }
        }
    }

    /// Does everything that can be done now.
    fn work(&mut self) -> Result<(), NetlinkError> {
        loop {
            let now = Instant::now();
            let table = &mut self.table;
            let mut tell = |event| table.handle(event, now);
            while self.listener.read(&mut tell)? {}
            let requests = self.table.advance(now);
            if requests.is_empty() {
                return Ok(());
            }
            for request in requests {
                let table = &mut self.table;
                if let Err(error) = self.asker.carry_out(request, &mut |event| table.handle(event, now)) {
                    // The requests after it are not carried out either: next time everything is read anew.
                    self.table.handle(Event::Lost, now);
                    return Err(error);
                }
            }
        }
    }
}
