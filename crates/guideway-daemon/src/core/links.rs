//! Whether packets can come by the interfaces at all.

use super::Core;
use crate::api::model::Interface;
use crate::journal::{Grade, Kind};

impl Core {
    /// Takes which links are down, and tells of each that goes down or comes back.
    pub(crate) fn note_links(&mut self, is_down: impl Fn(u32) -> bool) {
        for port in &mut self.about.interfaces {
            port.down = is_down(port.index);
            if port.down && self.down.insert(port.name.clone()) {
                self.journal.note(Grade::Error, Kind::Daemon, is_down_text(port));
            } else if !port.down && self.down.remove(&port.name) {
                self.journal.note(Grade::Info, Kind::Daemon, format!("{} is up again", port.name));
            }
        }
    }
}

/// What is wrong with an interface that is down.
pub(crate) fn is_down_text(port: &Interface) -> String {
    format!("{} is down, gone or without a carrier: no packet comes by it", port.name)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::api::view;
    use crate::in_process;
    use crate::metrics::{Format, Reading};

    const CONFIG: &str = r#"
        flow_table = { entries = 4096 }
        underlay = { source_v4 = "10.0.1.1" }
        [[service]]
        name = "web"
        vip = ["192.0.2.10"]
        port = 80
        protocol = "tcp"
        backend = [{ name = "be1", address = "10.0.0.1" }]
    "#;

    #[test]
    fn an_interface_that_is_down_is_a_fault_and_told_once_until_it_is_up_again() {
        let mut core = in_process::core(CONFIG, Instant::now()).unwrap();
        let port = |name: &str, index| Interface {
            name: name.to_owned(),
            index,
            mode: "native".to_owned(),
            fell_back: None,
            lost: None,
            down: false,
        };
        let ports = vec![port("eth0", 2), port("eth1", 3)];
        core.about.interfaces = ports.clone();
        let metric = |core: &Core, name: &str| {
            let text = Reading::take(core).text(Format::Classic);
            let name = format!("guideway_interface_forwarding{{interface=\"{name}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&name)).unwrap().to_owned()
        };
        core.note_links(|_| false);
        assert_eq!(view::status(&core).faults, Vec::<String>::new());
        let text = "eth1 is down, gone or without a carrier: no packet comes by it";
        let before = core.journal.last().unwrap().number;
        for _ in 0..2 {
            // As after a look at the forwarder, which knows nothing of links.
            core.about.interfaces = ports.clone();
            core.note_links(|index| index == 3);
            assert_eq!(view::status(&core).faults, [text]);
        }
        assert_eq!((metric(&core, "eth0").as_str(), metric(&core, "eth1").as_str()), ("1", "0"));
        core.note_links(|_| false);
        assert_eq!(view::status(&core).faults, Vec::<String>::new());
        assert_eq!(metric(&core, "eth1"), "1");
        let told: Vec<_> = core.journal.since(before).map(|event| event.text.as_str()).collect();
        assert_eq!(told, [text, "eth1 is up again"]);
    }
}
