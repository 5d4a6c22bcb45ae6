//! Frames go another way, or find none.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use guideway_control::counted;
use guideway_forward::record::NextHop;
use guideway_xdp::occupant::name_of;

use super::Core;
use crate::api::view;
use crate::journal::{Grade, Kind};
use crate::ways::Lost;

/// So many next hops that change together are told one by one.
const TOLD: usize = 8;

/// So many backends without a way are named in a line.
const NAMED: usize = 5;

/// From one look at backends without a way to the next.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Core {
    /// Takes what the kernel says of where frames go.
    pub(crate) fn set_next_hops(&mut self, changes: &[(IpAddr, NextHop)], now: Instant) {
        let ways = self.ways.find(changes, now);
        self.follow_ways(&ways);
    }

    /// Sends frames these ways.
    pub(super) fn follow_ways(&mut self, changes: &[(IpAddr, NextHop)]) {
        if changes.is_empty() {
            return;
        }
        self.tunnels_stale = true;
        self.egress_stale = true;
        self.desired.set_next_hops(&mut self.controller, changes);
        for (_, way) in changes.iter().filter(|(_, way)| way.interface != 0) {
            self.links.extend(name_of(way.interface).map(|name| (way.interface, name)));
        }
        if changes.len() > TOLD {
            let unresolved = changes.iter().filter(|(_, next_hop)| next_hop.neighbour == [0; 6]).count();
            let text = format!("{} next hops changed; {unresolved} have no neighbour yet", changes.len());
            self.journal.note(Grade::Info, Kind::NextHop, text);
            return;
        }
        // Those without a neighbour are being asked; who does not answer is told by `note_lost_ways`.
        for &(backend, next_hop) in changes.iter().filter(|(_, way)| way.neighbour != [0; 6]) {
            let mac = next_hop.neighbour.map(|byte| format!("{byte:02x}")).join(":");
            let by = self.link_name(next_hop.interface);
            let text = format!("frames to {backend} go to {mac} by {by}");
            let wanted = self.config.underlay.mtu;
            let text = match next_hop.limit(wanted) {
                limit if limit < wanted => format!("{text}, {}", narrow_text(limit, wanted)),
                _ => text,
            };
            self.journal.note(Grade::Info, Kind::NextHop, text);
        }
    }

    /// Looks which backends no frame can be sent to, and tells of those that are new among them.
    pub(crate) fn note_lost_ways(&mut self, is_down: impl Fn(u32) -> bool, now: Instant) {
        if self.lost_looked_at.is_some_and(|at| now < at + LOOK_EVERY) {
            return;
        }
        self.lost_looked_at = Some(now);
        let before = std::mem::replace(&mut self.lost, self.ways.lost(now).collect());
        let refused = self.ways.by(|link| self.refusing.contains_key(&link));
        for (backend, link) in refused.collect::<Vec<_>>() {
            self.lost.entry(backend).or_insert(Lost::Refused(link));
        }
        if !self.lost.is_empty() {
            // What operators switched off or let drain may well be gone.
            let wanted = view::ready_addresses(self);
            self.lost.retain(|backend, _| wanted.contains(backend));
        }
        for why in self.lost.values_mut() {
            if let Lost::Neighbour(link) | Lost::Route(Some(link)) = *why
                && is_down(link)
            {
                *why = Lost::Link(link);
            }
        }
        // What an interface refuses was told of that interface.
        let is_new = |(backend, why): &(&IpAddr, &Lost)| {
            !before.contains_key(*backend) && !matches!(why, Lost::Refused(_))
        };
        let new: Vec<_> = self.lost.iter().filter(is_new).map(|(&backend, &why)| (backend, why)).collect();
        for text in self.texts_of(new).collect::<Vec<_>>() {
            self.journal.note(Grade::Warning, Kind::NextHop, text);
        }
    }

    /// Takes which interfaces do not send what native mode has for them, and why; tells of each that begins or ends.
    pub(crate) fn note_refusing(&mut self, refusing: BTreeMap<u32, String>) {
        for (link, why) in refusing.iter().filter(|(link, _)| !self.refusing.contains_key(link)) {
            let text = format!("what is sent by {} is lost, {why}", self.link_name(*link));
            self.journal.note(Grade::Error, Kind::NextHop, text);
        }
        for link in self.refusing.keys().filter(|link| !refusing.contains_key(link)) {
            let text = format!("what is sent by {} arrives again", self.link_name(*link));
            self.journal.note(Grade::Info, Kind::NextHop, text);
        }
        if self.refusing != refusing {
            self.refusing = refusing;
            self.lost_looked_at = None;
        }
    }

    /// What is wrong with the ways to backends, a line for each reason.
    pub(crate) fn lost_texts(&self) -> impl Iterator<Item = String> {
        self.texts_of(self.lost.iter().map(|(&backend, &why)| (backend, why)))
    }

    fn texts_of(&self, lost: impl IntoIterator<Item = (IpAddr, Lost)>) -> impl Iterator<Item = String> {
        let mut by_reason: BTreeMap<Lost, Vec<IpAddr>> = BTreeMap::new();
        for (backend, why) in lost {
            by_reason.entry(why).or_default().push(backend);
        }
        by_reason.into_iter().map(move |(why, backends)| {
            let named: Vec<String> = backends.iter().take(NAMED).map(IpAddr::to_string).collect();
            let more = match backends.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "no way to {}{more}, what is sent there is dropped: {}",
                named.join(", "),
                self.why_lost(why)
            )
        })
    }

    /// What is no fault and good to know: where an interface takes less than is configured.
    pub(crate) fn narrow_links(&self) -> impl Iterator<Item = String> {
        let wanted = self.config.underlay.mtu;
        self.ways.narrow(wanted).into_iter().map(move |((link, limit), backends)| {
            let backends = counted(backends, "backend is", "backends are");
            format!("{backends} reached by {}, {}", self.link_name(link), narrow_text(limit, wanted))
        })
    }

    /// The name of an interface that frames leave by.
    pub(crate) fn link_name(&self, index: u32) -> String {
        self.links.get(&index).cloned().unwrap_or_else(|| format!("interface {index}"))
    }

    fn why_lost(&self, why: Lost) -> String {
        match why {
            Lost::Route(_) => "no route leads there".to_owned(),
            Lost::Neighbour(link) => format!("the next hop does not answer at {}", self.link_name(link)),
            Lost::Link(link) => format!("{} is down, gone or without a carrier", self.link_name(link)),
            Lost::Refused(link) => {
                let why = self.refusing.get(&link).map_or("", String::as_str);
                format!("{} does not send it, {why}", self.link_name(link))
            }
        }
    }
}

/// Which of two MTUs holds.
fn narrow_text(limit: u16, wanted: u16) -> String {
    format!(
        "where an MTU of {limit} holds instead of {wanted}, [underlay] mtu: the interface's or the route's"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use guideway_control::health::Who;
    use guideway_control::overrides::AdminState;

    use crate::in_process;
    use crate::metrics::{Format, Reading};

    /// An interface that there is not.
    const LINK: u32 = 0x7fff_0000;

    #[test]
    fn nobody_is_warned_of_a_neighbour_before_it_had_time_to_answer() {
        let mut now = Instant::now();
        let mut core = in_process::core(in_process::CONFIG, now).unwrap();
        let warnings = |core: &Core| {
            let all = core.journal.since(0).filter(|event| event.grade == Grade::Warning);
            all.map(|event| event.text.clone()).collect::<Vec<_>>()
        };
        let asked = NextHop { interface: LINK, own_mac: [4; 6], ..NextHop::default() };
        let [first, second] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        core.set_next_hops(&[(first, asked), (second, asked)], now);
        core.note_lost_ways(|_| false, now);
        assert_eq!(warnings(&core), Vec::<String>::new());
        core.set_next_hops(&[(first, NextHop { neighbour: [2; 6], ..asked })], now);
        for _ in 0..3 {
            now += LOOK_EVERY;
            core.note_lost_ways(|_| false, now);
        }
        let warnings = warnings(&core);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].starts_with("no way to 10.0.0.2, what is sent there is dropped: "),
            "{warnings:?}"
        );
    }

    #[test]
    fn a_backend_without_a_way_is_a_fault_with_its_reason_until_there_is_one() {
        let mut now = Instant::now();
        let mut core = in_process::core(in_process::CONFIG, now).unwrap();
        let backends: Vec<IpAddr> = core.backends().into_iter().collect();
        let metric = |core: &Core| {
            let text = Reading::take(core).text(Format::Classic);
            let line = text.lines().find_map(|line| line.strip_prefix("guideway_next_hops_missing "));
            line.unwrap().parse::<usize>().unwrap()
        };
        let look = |core: &mut Core, now: &mut Instant, is_down: bool| {
            *now += LOOK_EVERY;
            core.note_lost_ways(|_| is_down, *now);
            view::status(core).faults
        };
        assert!(look(&mut core, &mut now, false)[0].ends_with("is dropped: no route leads there"));
        let found = NextHop { interface: LINK, neighbour: [2; 6], own_mac: [4; 6], link_mtu: Some(1_400) };
        let ways = |way: NextHop| backends.iter().map(|&backend| (backend, way)).collect::<Vec<_>>();
        core.set_next_hops(&ways(found), now);
        assert_eq!(look(&mut core, &mut now, false), Vec::<String>::new());
        assert_eq!(metric(&core), 0);
        let notes = view::status(&core).notes;
        assert!(notes[0].contains("MTU of 1400 holds instead of 1500"), "{notes:?}");

        core.set_next_hops(&ways(NextHop { neighbour: [0; 6], ..found }), now);
        let faults = look(&mut core, &mut now, false);
        assert!(faults[0].ends_with("the next hop does not answer at interface 2147418112"), "{faults:?}");
        assert_eq!((faults.len(), metric(&core)), (1, backends.len()));
        core.set_next_hops(&ways(NextHop::default()), now);
        let faults = look(&mut core, &mut now, true);
        assert!(faults[0].ends_with("interface 2147418112 is down, gone or without a carrier"), "{faults:?}");
        for backend in core.config.services[0].backends.clone() {
            let who = Who { service: core.config.services[0].name.clone(), backend: backend.name };
            core.set_admin(&who, AdminState::Maintenance, None, now);
        }
        assert_eq!(
            look(&mut core, &mut now, true),
            ["web: no backend takes new flows"],
            "they are switched off"
        );
    }
}
