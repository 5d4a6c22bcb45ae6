//! Changes: what happens to the backends and when, and what is wanted after each.

use std::collections::BTreeMap;

use super::settings::Settings;
use super::traffic::Millis;
use crate::random::Random;

/// The number of a real server. It outlives removals: a server that returns is the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Server(pub u16);

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A new server joins with this weight.
    Add(Server, u32),
    /// A server leaves; its flows may end.
    Remove(Server),
    /// A server leaves, and its flows with it.
    RemoveAtOnce(Server),
    /// A server that left joins again.
    AddAgain(Server),
    /// A server takes no new flows.
    Drain(Server),
    /// A draining server takes new flows again.
    Undrain(Server),
    /// A server dies.
    Down(Server),
    /// A dead server is well again.
    Up(Server),
    /// A server's share changes.
    Weight(Server, u32),
    /// The tables get another size.
    Resize(u32),
    /// The fleet gets another seed.
    Reseed(u64),
}

/// How it is with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Active,
    Draining,
    Down,
    /// It left, and serves its flows until they end.
    Leaving,
    /// It left, and serves nothing.
    Gone,
}

impl Life {
    /// Whether its flows live.
    pub(crate) const fn keeps_flows(self) -> bool {
        matches!(self, Life::Active | Life::Draining | Life::Leaving)
    }

    /// Whether the configuration names it.
    pub(crate) const fn is_wanted(self) -> bool {
        matches!(self, Life::Active | Life::Draining | Life::Down)
    }
}

/// What is wanted, and what is true: the oracle's own books, which no balancer writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct World {
    /// Each server's state and weight.
    pub(crate) servers: BTreeMap<Server, (Life, u32)>,
    pub(crate) slots: u32,
    pub(crate) seed: u64,
}

impl World {
    pub(crate) fn new(settings: &Settings) -> Self {
        let servers =
            (0..settings.backends as u16).map(|number| (Server(number), (Life::Active, 1))).collect();
        Self { servers, slots: settings.slots, seed: settings.seed }
    }

    pub(crate) fn life(&self, server: Server) -> Life {
        self.servers.get(&server).map_or(Life::Gone, |&(life, _)| life)
    }

    /// Makes the change true.
    pub(crate) fn apply(&mut self, change: Change) {
        let mut live = |server: Server, life: Life| {
            if let Some((now, _)) = self.servers.get_mut(&server) {
                *now = life;
            }
        };
        match change {
            Change::Add(server, weight) => {
                self.servers.insert(server, (Life::Active, weight));
            }
            Change::Remove(server) => live(server, Life::Leaving),
            Change::RemoveAtOnce(server) => live(server, Life::Gone),
            Change::Drain(server) => live(server, Life::Draining),
            Change::Down(server) => live(server, Life::Down),
            Change::AddAgain(server) | Change::Undrain(server) | Change::Up(server) => {
                live(server, Life::Active);
            }
            Change::Weight(server, weight) => {
                if let Some((_, now)) = self.servers.get_mut(&server) {
                    *now = weight;
                }
            }
            Change::Resize(slots) => self.slots = slots,
            Change::Reseed(seed) => self.seed = seed,
        }
    }

    /// A server in this state, by chance.
    fn any(&self, random: &mut Random, life: Life) -> Option<Server> {
        let of: Vec<Server> =
            self.servers.iter().filter(|(_, (now, _))| *now == life).map(|(&server, _)| server).collect();
        of.get(random.index(of.len())).copied()
    }
}

/// A kind of change, before it is known to whom it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Add,
    Remove,
    RemoveAtOnce,
    AddAgain,
    Drain,
    Undrain,
    Down,
    Up,
    Weight,
    Resize,
    Reseed,
}

/// Twelve changes of every kind; a longer history goes through them again, in another order.
const ROUND: [What; 12] = [
    What::Add,
    What::Remove,
    What::Down,
    What::Drain,
    What::Weight,
    What::Up,
    What::Resize,
    What::AddAgain,
    What::Reseed,
    What::Undrain,
    What::RemoveAtOnce,
    What::Down,
];

/// The least number of servers that stay active.
const LEAST_ACTIVE: usize = 2;

/// The changes of a run, by their time. The first comes when half a minute is over, so that there are flows to break.
pub(crate) fn draw(settings: &Settings) -> Vec<(Millis, Change)> {
    let random = &mut Random::stream(settings.seed, 2);
    let end = u64::from(settings.minutes) * 60_000;
    let mut times: Vec<Millis> =
        (0..settings.changes).map(|_| random.between(30_000.min(end / 2), end)).collect();
    times.sort_unstable();
    let mut world = World::new(settings);
    let mut bag: Vec<What> = Vec::new();
    let mut changes = Vec::new();
    for at in times {
        if bag.is_empty() {
            bag = ROUND.to_vec();
            if !settings.resizes {
                bag.retain(|what| !matches!(what, What::Resize | What::Reseed));
            }
            random.shuffle(&mut bag);
        }
        // The first of the bag that is possible now; there is always a weight to change.
        let found =
            (0..bag.len()).find_map(|place| Some((place, possible(bag[place], &world, settings, random)?)));
        let change = match found {
            Some((place, change)) => {
                bag.remove(place);
                change
            }
            None => {
                bag.clear();
                let Some(server) = world.any(random, Life::Active) else { continue };
                Change::Weight(server, 1 + random.between(0, 4) as u32)
            }
        };
        world.apply(change);
        changes.push((at, change));
    }
    changes
}

fn possible(what: What, world: &World, settings: &Settings, random: &mut Random) -> Option<Change> {
    let active = world.servers.values().filter(|(life, _)| *life == Life::Active).count();
    let loses = matches!(what, What::Remove | What::RemoveAtOnce | What::Drain | What::Down);
    if loses && active <= LEAST_ACTIVE {
        return None;
    }
    Some(match what {
        What::Add => Change::Add(Server(world.servers.len() as u16), 1 + random.between(0, 2) as u32),
        What::Remove => Change::Remove(world.any(random, Life::Active)?),
        What::RemoveAtOnce => Change::RemoveAtOnce(world.any(random, Life::Active)?),
        What::AddAgain => {
            let (first, second) =
                if random.chance(50) { (Life::Leaving, Life::Gone) } else { (Life::Gone, Life::Leaving) };
            Change::AddAgain(world.any(random, first).or_else(|| world.any(random, second))?)
        }
        What::Drain => Change::Drain(world.any(random, Life::Active)?),
        What::Undrain => Change::Undrain(world.any(random, Life::Draining)?),
        What::Down => Change::Down(world.any(random, Life::Active)?),
        What::Up => Change::Up(world.any(random, Life::Down)?),
        What::Weight => Change::Weight(world.any(random, Life::Active)?, 1 + random.between(0, 4) as u32),
        What::Resize => {
            // The next larger prime, or back.
            let larger =
                (settings.slots + 1..).find(|&slots| guideway_hash::TableSize::new(slots).is_ok())?;
            Change::Resize(if world.slots == settings.slots { larger } else { settings.slots })
        }
        What::Reseed => Change::Reseed(random.word()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_holds_every_kind_of_change_in_order_of_time() {
        let settings = Settings { changes: 48, minutes: 60, ..Settings::default() };
        let changes = draw(&settings);
        assert_eq!(changes.len(), 48);
        assert!(changes.is_sorted_by_key(|(at, _)| *at));
        let kinds: std::collections::HashSet<_> =
            changes.iter().map(|(_, change)| std::mem::discriminant(change)).collect();
        assert_eq!(kinds.len(), 11);
    }

    #[test]
    fn some_servers_always_stay() {
        for seed in 0..50 {
            let settings = Settings { seed, backends: 3, slots: 1_009, changes: 40, ..Settings::default() };
            let mut world = World::new(&settings);
            for (_, change) in draw(&settings) {
                world.apply(change);
                let active = world.servers.values().filter(|(life, _)| *life == Life::Active).count();
                assert!(active >= LEAST_ACTIVE);
            }
        }
    }
}
