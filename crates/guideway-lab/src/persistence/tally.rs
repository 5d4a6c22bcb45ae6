//! Guideway's row: counted as the run goes.

use std::collections::{BTreeMap, HashSet};

use super::oracle::Reason;
use super::report::{Row, kind_name};
use super::traffic::Kind;

#[derive(Debug, Default)]
pub(crate) struct Tally {
    packets: u64,
    consulted: u64,
    lost: HashSet<u32>,
    reasons: BTreeMap<Reason, BTreeMap<&'static str, u64>>,
    remembered: usize,
    slot_bytes: usize,
    flow_bytes: usize,
}

impl Tally {
    pub(crate) fn packet(&mut self, consulted: bool) {
        self.packets += 1;
        self.consulted += u64::from(consulted);
    }

    /// A flow can lose one server after another; it counts once.
    pub(crate) fn lost(&mut self, flow: u32) {
        self.lost.insert(flow);
    }

    pub(crate) fn broken(&mut self, kind: Kind, reason: Reason) {
        *self.reasons.entry(reason).or_default().entry(kind_name(kind)).or_default() += 1;
    }

    pub(crate) fn remembered(&mut self, flows: usize) {
        self.remembered = self.remembered.max(flows);
    }

    pub(crate) fn memory(&mut self, (slots, flows): (usize, usize)) {
        self.slot_bytes = self.slot_bytes.max(slots);
        self.flow_bytes = flows;
    }

    pub(crate) fn reasons(&self) -> BTreeMap<Reason, BTreeMap<&'static str, u64>> {
        self.reasons.clone()
    }

    pub(crate) fn row(&self) -> Row {
        let mut by_kind = BTreeMap::new();
        for kinds in self.reasons.values() {
            for (&kind, &flows) in kinds {
                *by_kind.entry(kind).or_default() += flows;
            }
        }
        Row {
            strategy: "Guideway".to_owned(),
            lost: self.lost.len() as u64,
            broken: by_kind.values().sum(),
            broken_by_kind: by_kind,
            remembered: self.remembered,
            slot_bytes: self.slot_bytes,
            flow_bytes: self.flow_bytes,
            consulted: share(self.consulted, self.packets),
        }
    }
}

pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
