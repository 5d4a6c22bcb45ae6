//! Whether the sources of tunnels are this machine's own.
//!
//! One that is not may be meant: an anycast address that a router in front has. So it is told, and refused nothing.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::Core;
use crate::journal::{Grade, Kind};

impl Core {
    /// Looks which sources are not this machine's, and tells of each that begins or ends to be so. `is_own` does not know
    /// where the kernel does not tell.
    pub(crate) fn note_sources(&mut self, is_own: impl Fn(IpAddr) -> Option<bool>) {
        let fixed = self.fixed_sources();
        let is_foreign = |source: &IpAddr| !is_own(*source).unwrap_or(!self.foreign_sources.contains(source));
        let foreign: BTreeSet<IpAddr> = fixed.iter().copied().filter(is_foreign).collect();
        for source in foreign.difference(&self.foreign_sources) {
            self.journal.note(Grade::Warning, Kind::Config, is_foreign_text(*source));
        }
        for source in self.foreign_sources.difference(&foreign).filter(|source| fixed.contains(source)) {
            let text = format!("{source} ({}) is this machine's own now", key(*source));
            self.journal.note(Grade::Info, Kind::Config, text);
        }
        self.foreign_sources = foreign;
    }

    /// What is no fault and good to know: which sources are not this machine's.
    pub(crate) fn foreign_sources(&self) -> impl Iterator<Item = String> {
        self.foreign_sources.iter().map(|source| is_foreign_text(*source))
    }

    /// The sources that tunnels have as they are configured. Where they vary with the flow, routers bring the range here,
    /// and no address of it need be at an interface.
    fn fixed_sources(&self) -> BTreeSet<IpAddr> {
        let services = self.config.services.iter();
        let sources = services.flat_map(|service| {
            let backends = service.backends.iter().map(|backend| backend.address);
            let fixed = backends.filter(|backend| service.source_entropy_bits(*backend) == 0);
            fixed.filter_map(|backend| self.config.underlay.source_for(backend))
        });
        sources.collect()
    }
}

fn is_foreign_text(source: IpAddr) -> String {
    let key = key(source);
    format!(
        "{source} ({key}) is no address of this machine: what routers say of its tunnels, such as that a packet is too big, goes \
         elsewhere. Unless that is meant, as with an anycast address, set one that `ip address` lists"
    )
}

/// Where the configuration says it.
const fn key(source: IpAddr) -> &'static str {
    if source.is_ipv4() { "source_v4" } else { "source_v6" }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use guideway_control::config::{self, Source};

    use super::*;
    use crate::api::view;
    use crate::in_process::{self, CONFIG};

    #[test]
    fn a_source_that_is_not_this_machines_is_told_once_until_it_is_and_one_that_varies_is_not() {
        let now = Instant::now();
        let mut core = in_process::core(CONFIG, now).unwrap();
        let source = IpAddr::from([10, 0, 1, 1]);
        let texts = |core: &Core, since: u64| -> Vec<String> {
            core.journal.since(since).map(|event| event.text.clone()).collect()
        };
        let before = core.journal.last().unwrap().number;
        core.note_sources(|_| None);
        assert_eq!(view::status(&core).notes, Vec::<String>::new(), "what is not known is not told");
        for answer in [Some(false), Some(false), None] {
            core.note_sources(|asked| answer.filter(|_| asked == source));
            assert_eq!(view::status(&core).notes, [is_foreign_text(source)]);
        }
        core.note_sources(|_| Some(true));
        assert_eq!(view::status(&core).notes, Vec::<String>::new());
        let own = "10.0.1.1 (source_v4) is this machine's own now".to_owned();
        assert_eq!(texts(&core, before), [is_foreign_text(source), own]);

        let text = CONFIG.replace("10.0.1.1", "10.9.1.1").replace("port", "outer_source = \"entropy\"\nport");
        core.reconfigure(config::parse(&Source::new("test", text)).unwrap(), now).unwrap();
        core.note_sources(|_| Some(false));
        assert_eq!(view::status(&core).notes, Vec::<String>::new());
    }
}
