//! Live flows by backend, counted once for all changes that are made together, if any of them asks.

use std::cell::OnceCell;
use std::collections::HashMap;

use guideway_forward::record::ServiceId;

use super::tick::for_each_flow;
use crate::engine::Engine;

/// Those counts.
#[derive(Debug, Default)]
pub(super) struct Living(OnceCell<HashMap<(ServiceId, u16), u32>>);

impl Living {
    /// Live flows of one backend of a service. The first question reads the whole flow table.
    pub(super) fn of(&self, engine: &impl Engine, service: ServiceId, backend: u16) -> u32 {
        let flows = self.0.get_or_init(|| {
            let mut flows: HashMap<_, u32> = HashMap::new();
            for_each_flow(engine, |flow| {
                if flow.is_live() {
                    *flows.entry((flow.service, flow.backend)).or_default() += 1;
                }
            });
            flows
        });
        flows.get(&(service, backend)).copied().unwrap_or(0)
    }
}
