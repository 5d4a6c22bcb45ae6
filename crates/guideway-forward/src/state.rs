//! Where a decision reads its state from: small traits, implemented over maps in the kernel and over memory in user
//! space.
//!
//! All methods take `&self`, allocate nothing and wait for nobody. What returns a reference to a record may be read
//! by a packet while the controller changes the record; its words are atomic.

use crate::word::AtomicU64;

use guideway_wire::{FlowKey, HashKey, Packet, Parsed};

use crate::answer::{self, Question};
use crate::flow::{self, Memo};
use crate::outcome::{Event, Outcome};
use crate::record::{
    Backend, Bucket, FragmentBucket, Service, ServiceId, ServiceKey, Settings, Slot, TableRef, Vip,
};
use crate::slot::{self, Choice, Spot};

/// Finding services.
pub trait Services {
    /// The service of exactly this address, port and protocol; with port 0, the one that takes every port.
    fn exact(&self, key: &ServiceKey) -> Option<ServiceId>;

    /// The service with the longest virtual prefix that holds the address, with exactly this port and protocol.
    fn prefix(&self, key: &ServiceKey) -> Option<ServiceId>;

    /// What is known of an address that is a VIP or inside a virtual prefix; `None` for any other address.
    fn vip(&self, address: &[u8; 16]) -> Option<Vip>;

    /// Whether the address may be a VIP or inside a virtual prefix. `false` is sure, and sooner known than by
    /// [`Services::vip`]; an engine that has no such way always says `true`.
    #[inline(always)]
    fn may_be_vip(&self, _address: &[u8; 16]) -> bool {
        true
    }

    /// The record of a service.
    fn service(&self, id: ServiceId) -> Option<&Service>;
}

/// The array that holds the slots of all tables.
pub trait Slots {
    /// Slot `index` of the table that begins at `offset`: one relaxed load of 4 bytes.
    fn slot(&self, offset: u32, index: u32) -> Option<Slot>;
}

/// The array of all backends.
pub trait Backends {
    /// The record of the backend with this global index.
    fn backend(&self, index: u32) -> Option<&Backend>;

    /// The local index of the backend of `service` that QUIC-LB knows by `server_id` (big-endian, 1–8 bytes).
    fn quic_backend(&self, service: ServiceId, server_id: u64) -> Option<u16>;
}

/// The memory of flow table and fragment cache.
pub trait Flows {
    /// The number of buckets of the flow table less one; the number is a power of two.
    fn flow_mask(&self) -> u32;

    /// Bucket `index` of the flow table.
    fn flow_bucket(&self, index: u32) -> Option<&Bucket>;

    /// The number of buckets of the fragment cache less one; the number is a power of two.
    fn fragment_mask(&self) -> u32;

    /// Bucket `index` of the fragment cache.
    fn fragment_bucket(&self, index: u32) -> Option<&FragmentBucket>;

    /// Stores `new` if the word still holds `old`; whether it did.
    ///
    /// A method, since the BPF target has the instruction but not the one of [`AtomicU64`].
    fn compare_exchange(&self, word: &AtomicU64, old: u64, new: u64) -> bool;
}

/// Time and the rate limit.
pub trait Clock {
    /// Seconds of a clock that never goes back; its start does not matter. Asked for only where time is needed, so
    /// never for a flow of a settled slot.
    fn now_seconds(&self) -> u32;

    /// Takes one token for an ICMP message of our own; `false` when the rate limit is reached.
    fn allow_icmp(&self) -> bool;
}

/// Counting. Bytes are those of the frame as it was received.
pub trait Counters {
    /// One packet met this fate.
    fn outcome(&self, outcome: Outcome, bytes: u32);

    /// What is about to be counted, if nothing keeps the packet from being sent: an engine whose counts may lie far away
    /// can fetch them while the packet is rewritten.
    #[inline(always)]
    fn expect(&self, _service: ServiceId, _backend: u32) {}

    /// One packet was forwarded for this service.
    fn service(&self, service: ServiceId, bytes: u32);

    /// One packet was forwarded to the backend with this global index.
    fn backend(&self, backend: u32, bytes: u32);

    /// This happened besides.
    fn event(&self, event: Event);
}

/// All that a decision needs.
///
/// The heavy steps are methods, so that an engine can make functions of their own of them: the kernel's verifier
/// follows every call with all that it knows of the caller, and so over and over, but what takes nothing except
/// numbers, the packet and plain data it can check once and for all. What is provided here are the steps themselves.
pub trait State: Services + Slots + Backends + Flows + Clock + Counters + Sized {
    /// What holds for the whole machine.
    fn settings(&self) -> &Settings;

    /// The flow's hash in a table of a service; see [`TableRef::hash`].
    #[inline(always)]
    fn flow_hash(&self, table: &TableRef, flow: &FlowKey, by: HashKey) -> u64 {
        table.hash(flow, by)
    }

    /// The secret hash of a flow of `service`; see [`Settings::keyed_hash`].
    #[inline(always)]
    fn keyed_hash(&self, flow: &FlowKey, service: ServiceId) -> u64 {
        self.settings().keyed_hash(flow, service)
    }

    /// The backend of a packet that the slot alone does not tell; see [`slot::consult`].
    #[inline(always)]
    fn consult(&self, service: ServiceId, parsed: &Parsed, spot: Spot) -> Choice {
        slot::consult(service, parsed, spot, self)
    }

    /// Where an ICMP error's flow belongs, as far as it is remembered; see [`slot::belonging`].
    #[inline(always)]
    fn belonging(&self, service: ServiceId, flow: &FlowKey, slot: Slot) -> Choice {
        slot::belonging(service, flow, slot, self)
    }

    /// Remembers `memo` of the flow of `service` with this keyed hash; see [`flow::remember`].
    #[inline(always)]
    fn remember(&self, hash: u64, service: ServiceId, memo: Memo) -> bool {
        flow::remember(hash, service, memo, self)
    }
}

/// A state of an engine whose packets are `P`.
pub trait Answers<P: Packet>: State {
    /// Answers the packet; see [`answer::give`].
    #[inline(always)]
    fn answer(&self, packet: &mut P, parsed: &Parsed, question: Question) -> Outcome {
        answer::give(packet, parsed, question, self)
    }
}
