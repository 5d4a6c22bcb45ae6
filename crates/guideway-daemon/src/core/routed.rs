//! Whether the kernel routes what the software forwarder forwards.
//!
//! A packet socket takes no packet away from the kernel. One that routes sends each on to a virtual address a second time: it
//! comes back, until its hops are used up, or the host that it gets to resets the connection.

use std::fs;

use super::Core;
use crate::journal::{Grade, Kind};

/// That the kernel routes what comes by an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Routed {
    interface: String,
    family: &'static str,
    /// What makes it do so, below `/proc/sys/net`.
    setting: String,
}

/// Whether a setting of `/proc/sys/net` is on; not where this kernel has none of that name.
pub(crate) fn is_on(setting: &str) -> bool {
    fs::read_to_string(format!("/proc/sys/net/{setting}")).is_ok_and(|value| value.trim() != "0")
}

impl Core {
    /// Looks at which interfaces the kernel routes packets of a family that services have, and tells of each that begins or ends.
    pub(crate) fn note_routed(&mut self, is_on: impl Fn(&str) -> bool) {
        if self.about.engine != "soft" {
            return;
        }
        let vips = || self.config.services.iter().flat_map(|service| &service.vips);
        let (has_v4, has_v6) =
            (vips().any(|vip| vip.addr().is_ipv4()), vips().any(|vip| vip.addr().is_ipv6()));
        let mut routed = Vec::new();
        for name in self.about.interfaces.iter().map(|port| &port.name) {
            let settings = [
                (has_v4, "IPv4", format!("ipv4/conf/{name}/forwarding")),
                // An interface's own `forwarding` has the kernel route no IPv6, and keeps it from none.
                (has_v6, "IPv6", "ipv6/conf/all/forwarding".to_owned()),
                (has_v6, "IPv6", format!("ipv6/conf/{name}/force_forwarding")),
            ];
            let on = settings.into_iter().filter(|(has, _, setting)| *has && is_on(setting));
            routed.extend(on.map(|(_, family, setting)| Routed { interface: name.clone(), family, setting }));
        }
        for new in routed.iter().filter(|one| !self.routed.contains(one)) {
            self.journal.note(Grade::Warning, Kind::Daemon, text(new));
        }
        for Routed { setting, .. } in self.routed.iter().filter(|one| !routed.contains(one)) {
            let text = format!("net/{setting} has the kernel route packets of services no more");
            self.journal.note(Grade::Info, Kind::Daemon, text);
        }
        self.routed = routed;
    }

    /// What is no fault where a rule drops such packets, and good to know: where the kernel routes them.
    pub(crate) fn routed_texts(&self) -> impl Iterator<Item = String> {
        self.routed.iter().map(text)
    }
}

fn text(Routed { interface, family, setting }: &Routed) -> String {
    format!(
        "the kernel routes {family} that comes by {interface}, and sends on what the software engine forwards a second time: \
         `sysctl -w net/{setting}=0`, or have nftables drop what is for virtual addresses in prerouting; the engine has read it by \
         then"
    )
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use guideway_control::config::{self, Source};

    use super::*;
    use crate::api::model::Interface;
    use crate::api::view;
    use crate::in_process::{self, CONFIG};

    fn core(text: &str) -> Core {
        let mut core = in_process::core(text, Instant::now()).unwrap();
        core.about.interfaces = vec![Interface {
            name: "eth0".to_owned(),
            index: 2,
            mode: "socket".to_owned(),
            fell_back: None,
            lost: None,
            down: false,
        }];
        core
    }

    #[test]
    fn what_the_kernel_routes_beside_the_software_engine_is_told_once_and_noted_until_it_ends() {
        let mut core = core(CONFIG);
        let before = core.journal.last().unwrap().number;
        let setting = "ipv4/conf/eth0/forwarding";
        for _ in 0..2 {
            core.note_routed(|asked| asked == setting);
            let notes = view::status(&core).notes;
            assert_eq!(notes.len(), 1, "{notes:?}");
            assert!(
                notes[0].contains("IPv4 that comes by eth0")
                    && notes[0].contains(&format!("net/{setting}=0"))
            );
        }
        core.note_routed(|_| false);
        assert_eq!(view::status(&core).notes, Vec::<String>::new());
        assert_eq!(core.journal.since(before).count(), 2, "it began, it ended");
    }

    #[test]
    fn a_family_is_looked_at_where_services_have_it_by_the_settings_that_the_kernel_heeds() {
        let mut core = core(CONFIG);
        core.note_routed(|setting| setting.starts_with("ipv6/"));
        assert_eq!(core.routed, [], "no service has IPv6");
        let both = CONFIG.replace("[\"192.0.2.10\"]", "[\"192.0.2.10\", \"2001:db8::10\"]");
        core.reconfigure(config::parse(&Source::new("test", both)).unwrap(), Instant::now()).unwrap();
        core.note_routed(|setting| setting.starts_with("ipv6/"));
        let found: Vec<_> = core.routed.iter().map(|routed| routed.setting.as_str()).collect();
        assert_eq!(found, ["ipv6/conf/all/forwarding", "ipv6/conf/eth0/force_forwarding"]);
    }

    #[test]
    fn the_kernels_own_engine_takes_packets_before_they_are_routed() {
        let mut core = core(CONFIG);
        core.about.engine = "xdp";
        core.note_routed(|_| true);
        assert_eq!(core.routed, []);
    }
}
