//! All backends, the ways to them, and the next hops that the ways need.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use guideway_forward::record::backend::NextHop;

use super::choose::choose;
use super::hop::{CONFIRM_EVERY, Deed, Hop};
use super::{Event, Link, Mac, Path, Place, Request, Resolution};

/// How long routes are left to change on before they are asked for: they change in crowds.
const ROUTES_REST: Duration = Duration::from_millis(20);

/// The least time from one asking for all routes to the next.
const ROUTES_AGAIN: Duration = Duration::from_millis(100);

/// Confirmations a second, over all next hops: beyond so many next hops each is confirmed less often.
const CONFIRMATIONS_PER_SECOND: u32 = 1_000;

/// Where the frames to each backend go.
#[derive(Debug, Default)]
pub struct NeighbourTable {
    links: HashMap<u32, Link>,
    /// What the kernel knows, of all its neighbours.
    known: HashMap<Place, Resolution>,
    hops: BTreeMap<Place, Used>,
    backends: BTreeMap<IpAddr, Backend>,
    /// When which next hop has something to do.
    due: BTreeSet<(Instant, Place)>,
    /// When routes are asked for next.
    routes_due: Option<Instant>,
    routes_asked: Option<Instant>,
    requests: Vec<Request>,
    /// When the first of `requests` was made.
    requested: Option<Instant>,
    changed: BTreeSet<IpAddr>,
    counts: Counts,
}

/// How often what was done, since the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Resolutions asked for: of neighbours not known, and of those that fell silent.
    pub resolutions: u64,
    /// Confirmations asked for.
    pub confirmations: u64,
    /// Next hops that changed their MAC.
    pub moves: u64,
    /// Times that events were lost and everything was read again.
    pub losses: u64,
}

/// A next hop, and the backends that have a way over it.
#[derive(Debug)]
struct Used {
    hop: Hop,
    due: Option<Instant>,
    backends: BTreeSet<IpAddr>,
}

#[derive(Debug, Default)]
struct Backend {
    paths: Vec<Path>,
    /// What was told last.
    next_hop: NextHop,
}

impl NeighbourTable {
    /// A table that knows nothing yet, and asks for everything.
    pub fn new(now: Instant) -> Self {
        let mut table = Self::default();
        table.request(Request::Dump, now);
        table
    }

    /// Follows the next hops of these backends, and of no others.
    pub fn follow(&mut self, backends: impl IntoIterator<Item = IpAddr>, now: Instant) {
        let wanted: BTreeSet<IpAddr> = backends.into_iter().collect();
        let gone: Vec<IpAddr> =
            self.backends.keys().filter(|backend| !wanted.contains(backend)).copied().collect();
        for backend in gone {
            self.set_paths(backend, Vec::new(), now);
            self.backends.remove(&backend);
            self.changed.remove(&backend);
        }
        for backend in wanted {
            if let Entry::Vacant(new) = self.backends.entry(backend) {
                new.insert(Backend::default());
                self.changed.insert(backend);
                self.request(Request::Route(backend), now);
            }
        }
    }

    /// Takes what the kernel says.
    pub fn handle(&mut self, event: Event, now: Instant) {
        match event {
            Event::Link { interface, link } => self.set_link(interface, link, now),
            Event::LinkGone { interface } => self.remove_link(interface, now),
            Event::Links(links) => {
                let gone: Vec<u32> = self
                    .links
                    .keys()
                    .filter(|known| !links.iter().any(|(interface, _)| interface == *known))
                    .copied()
                    .collect();
                gone.into_iter().for_each(|interface| self.remove_link(interface, now));
                for (interface, link) in links {
                    self.set_link(interface, link, now);
                }
            }
            Event::Neighbour { place, state } => {
                match state {
                    Resolution::Unknown => self.known.remove(&place),
                    _ => self.known.insert(place, state),
                };
                self.hear(place, state, now);
            }
            Event::RoutesChanged => self.routes_changed(now),
            Event::Route { backend, paths } => self.set_paths(backend, paths, now),
            Event::Lost => {
                self.counts.losses += 1;
                self.known.clear();
                self.request(Request::Dump, now);
                self.routes_changed(now);
            }
        }
    }

    /// When [`advance`](Self::advance) has something to do.
    pub fn next_due(&self) -> Option<Instant> {
        let hop = self.due.first().map(|&(at, _)| at);
        [hop, self.routes_due, self.requested].into_iter().flatten().min()
    }

    /// Does what is due, and says what is to be asked and done, in this order.
    pub fn advance(&mut self, now: Instant) -> Vec<Request> {
        if self.routes_due.is_some_and(|due| due <= now) {
            self.routes_due = None;
            self.routes_asked = Some(now);
            let backends: Vec<IpAddr> = self.backends.keys().copied().collect();
            for backend in backends {
                self.request(Request::Route(backend), now);
            }
        }
        while let Some(&(at, place)) = self.due.first()
            && at <= now
        {
            let running = self.is_running(place.interface);
            let Some(used) = self.hops.get_mut(&place) else {
                self.due.pop_first();
                continue;
            };
            let before = used.hop.mac();
            let deed = used.hop.advance(now);
            self.settle(place, before);
            if running {
                self.carry_out(place, deed, now);
            }
        }
        self.requested = None;
        std::mem::take(&mut self.requests)
    }

    /// The next hops that changed since this was asked last.
    pub fn changes(&mut self) -> Vec<(IpAddr, NextHop)> {
        let mut changes = Vec::new();
        for address in std::mem::take(&mut self.changed) {
            let next_hop = self.chosen(address);
            if let Some(backend) = self.backends.get_mut(&address)
                && backend.next_hop != next_hop
            {
                backend.next_hop = next_hop;
                changes.push((address, next_hop));
            }
        }
        changes
    }

    /// Where the frames to a backend go, as told by [`changes`](Self::changes) last; `None` for one that is not
    /// followed. Without a neighbour its MAC is zero.
    pub fn next_hop(&self, backend: IpAddr) -> Option<NextHop> {
        Some(self.backends.get(&backend)?.next_hop)
    }

    /// The backends without a neighbour to send frames to.
    pub fn unresolved(&self) -> impl Iterator<Item = IpAddr> {
        let unresolved = self.backends.iter().filter(|(_, backend)| backend.next_hop.neighbour == [0; 6]);
        unresolved.map(|(&address, _)| address)
    }

    /// Whether the kernel has told of links yet.
    pub fn knows_links(&self) -> bool {
        !self.links.is_empty()
    }

    /// Whether an interface is off, without a carrier or gone; never before the kernel has told of any.
    pub fn is_down(&self, interface: u32) -> bool {
        self.knows_links() && !self.is_running(interface)
    }

    /// How often what was done.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How many next hops are followed.
    pub fn hops(&self) -> usize {
        self.hops.len()
    }

    fn set_link(&mut self, interface: u32, link: Link, now: Instant) {
        let before = self.links.insert(interface, link);
        if link.running != before.is_some_and(|before| before.running) {
            if !link.running {
                // Whoever is behind the link when it runs again may be another.
                self.known.retain(|place, known| {
                    place.interface != interface || matches!(known, Resolution::Permanent(_))
                });
            }
            self.reset_hops(interface, now);
            self.routes_changed(now);
        }
        if before != Some(link) {
            self.choose_on(interface);
        }
    }

    fn remove_link(&mut self, interface: u32, now: Instant) {
        if self.links.remove(&interface).is_some() {
            self.known.retain(|place, _| place.interface != interface);
            self.reset_hops(interface, now);
            self.choose_on(interface);
            self.routes_changed(now);
        }
    }

    fn set_paths(&mut self, address: IpAddr, paths: Vec<Path>, now: Instant) {
        let Some(backend) = self.backends.get_mut(&address) else { return };
        if backend.paths == paths {
            return;
        }
        let before = std::mem::replace(&mut backend.paths, paths.clone());
        let places =
            |paths: &[Path]| -> BTreeSet<Place> { paths.iter().map(|path| place(path, address)).collect() };
        let (left, joined) = (places(&before), places(&paths));
        for place in left.difference(&joined) {
            let Some(used) = self.hops.get_mut(place) else { continue };
            used.backends.remove(&address);
            if used.backends.is_empty() {
                if let Some(due) = used.due {
                    self.due.remove(&(due, *place));
                }
                self.hops.remove(place);
            }
        }
        for &place in joined.difference(&left) {
            if let Some(used) = self.hops.get_mut(&place) {
                used.backends.insert(address);
                continue;
            }
            let used = Used { hop: Hop::new(now), due: None, backends: BTreeSet::from([address]) };
            self.hops.insert(place, used);
            self.settle(place, None);
            if let Some(&known) = self.known.get(&place) {
                self.hear(place, known, now);
            }
        }
        self.changed.insert(address);
    }

    fn hear(&mut self, place: Place, heard: Resolution, now: Instant) {
        let pace = self.pace(place);
        let running = self.is_running(place.interface);
        let Some(used) = self.hops.get_mut(&place) else { return };
        let before = used.hop.mac();
        let deed = used.hop.hear(heard, now, pace);
        self.settle(place, before);
        if running {
            self.carry_out(place, deed, now);
        }
    }

    /// Puts a next hop where it is due, and has the choice of ways made again if its MAC changed.
    fn settle(&mut self, place: Place, before: Option<Mac>) {
        let Some(used) = self.hops.get_mut(&place) else { return };
        let due = used.hop.due();
        if due != used.due {
            if let Some(old) = used.due {
                self.due.remove(&(old, place));
            }
            if let Some(new) = due {
                self.due.insert((new, place));
            }
            used.due = due;
        }
        let mac = used.hop.mac();
        if mac != before {
            self.counts.moves += u64::from(mac.is_some() && before.is_some());
            self.changed.extend(&used.backends);
        }
    }

    fn carry_out(&mut self, place: Place, deed: Option<Deed>, now: Instant) {
        let request = match deed {
            None => return,
            Some(Deed::Confirm) => {
                self.counts.confirmations += 1;
                Request::Confirm(place)
            }
            Some(Deed::Resolve) => {
                self.counts.resolutions += 1;
                Request::Resolve(place)
            }
            Some(Deed::Restart) => {
                self.counts.resolutions += 1;
                Request::Restart(place)
            }
        };
        self.request(request, now);
    }

    /// Time to the next confirmation: a little different for each, so that they do not come in crowds.
    fn pace(&self, place: Place) -> Duration {
        let hops = u32::try_from(self.hops.len()).unwrap_or(u32::MAX);
        let pace = CONFIRM_EVERY.max(Duration::from_secs(1) * hops / CONFIRMATIONS_PER_SECOND);
        let word = match place.address {
            IpAddr::V4(v4) => u64::from(u32::from(v4)),
            IpAddr::V6(v6) => (u128::from(v6) ^ (u128::from(v6) >> 64)) as u64,
        };
        // The high bits of a product with an odd number depend on all bits of the word.
        let eighths = (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61) as u32;
        pace - pace / 32 * eighths
    }

    fn is_running(&self, interface: u32) -> bool {
        self.links.get(&interface).is_some_and(|link| link.running)
    }

    fn reset_hops(&mut self, interface: u32, now: Instant) {
        let places: Vec<Place> =
            self.hops.keys().filter(|place| place.interface == interface).copied().collect();
        for place in places {
            let Some(used) = self.hops.get_mut(&place) else { continue };
            let before = used.hop.mac();
            used.hop.reset(now);
            self.settle(place, before);
            // What the kernel still knows, such as what was set for good, holds on a link that runs.
            if self.is_running(interface)
                && let Some(&known) = self.known.get(&place)
            {
                self.hear(place, known, now);
            }
        }
    }

    /// Has the choice of ways made again for all that have one over an interface.
    fn choose_on(&mut self, interface: u32) {
        let over = self.hops.iter().filter(|(place, _)| place.interface == interface);
        self.changed.extend(over.flat_map(|(_, used)| &used.backends));
    }

    fn routes_changed(&mut self, now: Instant) {
        let again = self.routes_asked.map_or(now, |asked| asked + ROUTES_AGAIN);
        self.routes_due.get_or_insert(again.max(now + ROUTES_REST));
    }

    fn request(&mut self, request: Request, now: Instant) {
        self.requests.push(request);
        self.requested.get_or_insert(now);
    }

    /// Of the ways with a known neighbour one, or else of those with a running link, for the time when it is known.
    fn chosen(&self, address: IpAddr) -> NextHop {
        let Some(backend) = self.backends.get(&address) else { return NextHop::default() };
        let mac = |path: &Path| self.hops.get(&place(path, address)).and_then(|used| used.hop.mac());
        let runs = |path: &&Path| {
            self.links.get(&path.interface).is_some_and(|link| link.running && link.mac.is_some())
        };
        let running = || backend.paths.iter().filter(runs);
        let resolved = choose(address, running().filter(|path| mac(path).is_some()));
        let Some(path) = resolved.or_else(|| choose(address, running())) else { return NextHop::default() };
        let link = self.links.get(&path.interface);
        NextHop {
            interface: path.interface,
            neighbour: mac(path).unwrap_or_default(),
            own_mac: link.and_then(|link| link.mac).unwrap_or_default(),
            link_mtu: [path.mtu, link.and_then(|link| link.mtu)].into_iter().flatten().min(),
        }
    }
}

/// Whom frames of a way go to on its link.
fn place(path: &Path, backend: IpAddr) -> Place {
    Place { interface: path.interface, address: path.gateway.unwrap_or(backend) }
}

#[cfg(test)]
mod tests;
