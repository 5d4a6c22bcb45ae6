//! Where services listen: single addresses in the mapped directory ([`crate::halves`]), prefixes and QUIC server ids in
//! the kernel's tries and its hash map.
//!
//! The kernel may give the element of a key that was removed or replaced to another key at once, while a program still
//! looks at it. So an element is freed only when no other is taken before a grace period has passed: first all new
//! keys, then changed ones with a wait between, then removals, and a wait before the next change takes any. So it is
//! with the halves of the directory: one that was in use is filled anew only after a wait.

use std::collections::BTreeMap;

use aya::maps::lpm_trie::Key;
use aya::maps::{HashMap, LpmTrie, Map, MapData, MapError};
use guideway_forward::record::directory::At;
use guideway_forward::record::{PrefixKey, QuicKey, ServiceId, ServiceKey, Vip};
use guideway_soft::QuicBinding;
use guideway_soft::lookup::{Binding, vips};
use zerocopy::transmute;

use crate::balancer::describe;
use crate::error::Error;
use crate::grace::Grace;
use crate::halves::{Halves, Singles};
use crate::step;
use crate::tables::{self, Shape};

/// All of it, and what this process knows to be there.
#[derive(Debug)]
pub(crate) struct Directory {
    singles: Singles,
    /// The directory that was in use before the present change put another in its place, and what it says.
    before: Option<(At, Singles)>,
    prefixes: Mirror<LpmTrie<MapData, [u8; 20], u16>>,
    vip_prefixes: Mirror<LpmTrie<MapData, [u8; 16], u32>>,
    quic: Mirror<HashMap<MapData, [u8; 16], u16>>,
    /// Whether elements were freed since the last grace period.
    freed: bool,
    /// Which of the large maps is compared next.
    turn: usize,
}

/// A map of more entries is compared only when its turn has come, one a round: reading an entry takes two system calls.
const LARGE: usize = 16_384;

impl Directory {
    /// Over the maps that `find` hands out and the mapped directory, with what is in them now.
    pub(crate) fn new(find: impl Fn(Shape) -> Result<Map, Error>, halves: Halves<'_>) -> Result<Self, Error> {
        Ok(Self {
            singles: halves.read(),
            before: None,
            prefixes: Mirror::new(tables::PREFIXES, open(tables::PREFIXES, &find)?)?,
            vip_prefixes: Mirror::new(tables::VIP_PREFIXES, open(tables::VIP_PREFIXES, &find)?)?,
            quic: Mirror::new(tables::QUIC, open(tables::QUIC, &find)?)?,
            freed: true,
            turn: 0,
        })
    }

    /// What the maps say.
    pub(crate) fn published(&self) -> (Vec<Binding>, Vec<QuicBinding>) {
        let exact = self.singles.exact.iter().map(|(key, &service)| {
            let key: ServiceKey = transmute!(*key);
            binding(&key, 128, service)
        });
        let prefixes = self.prefixes.held.iter().map(|((bits, rest), &service)| {
            let [first, address @ ..]: [[u8; 4]; 5] = transmute!(*rest);
            let [protocol, _, port @ ..] = first;
            let key = ServiceKey { address: transmute!(address), port, protocol, reserved: 0 };
            // A key of the trie is 32 bits of protocol and port, and at most 128 of the address.
            binding(&key, bits.saturating_sub(PrefixKey::LEADING_BITS) as u8, service)
        });
        let quic = self.quic.held.iter().map(|(key, &backend)| {
            let QuicKey { server_id, service, .. } = transmute!(*key);
            QuicBinding { service, server_id, backend }
        });
        (exact.chain(prefixes).collect(), quic.collect())
    }

    /// Makes them say this and nothing else. All single addresses change at once, and each other key by itself; what a
    /// program sees between is either.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Map`]: the maps say what they said before. [`Error::Torn`]: they could not be made to.
    pub(crate) fn publish(
        &mut self,
        bindings: &[Binding],
        quic: &[QuicBinding],
        halves: Halves<'_>,
        grace: &Grace,
    ) -> Result<(), Error> {
        self.forget_steps();
        self.change(bindings, quic, halves, grace).map_err(|error| match self.step_back(halves, grace) {
            Ok(()) => error,
            Err(again) => Error::Torn { reason: format!("{error}; and then: {again}") },
        })
    }

    /// Compares the maps with what they should say, and puts right what somebody else has changed; how many entries.
    ///
    /// # Errors
    /// [`Error::Map`], [`Error::Full`].
    pub(crate) fn repair(&mut self, halves: Halves<'_>, grace: &Grace) -> Result<u32, Error> {
        self.turn += 1;
        let turn = self.turn % 3;
        let wait = &mut Wait { freed: &mut self.freed, grace };
        // As a change does: services are never without their VIPs.
        let repaired = self.vip_prefixes.repair(turn == 0, wait)?
            + self.quic.repair(turn == 1, wait)?
            + repair_singles(&self.singles, halves, wait)?
            + self.prefixes.repair(turn == 2, wait)?;
        self.forget_steps();
        Ok(repaired)
    }

    fn forget_steps(&mut self) {
        self.before = None;
        self.prefixes.steps.clear();
        self.vip_prefixes.steps.clear();
        self.quic.steps.clear();
    }

    /// Undoes the steps since [`Directory::forget_steps`], the maps in the opposite order.
    fn step_back(&mut self, halves: Halves<'_>, grace: &Grace) -> Result<(), Error> {
        let wait = &mut Wait { freed: &mut self.freed, grace };
        self.prefixes.step_back(wait)?;
        if let Some((at, singles)) = self.before.take() {
            step::comes();
            halves.settings.set_directory(at);
            self.singles = singles;
            *wait.freed = true;
        }
        self.quic.step_back(wait)?;
        self.vip_prefixes.step_back(wait)
    }

    fn change(
        &mut self,
        bindings: &[Binding],
        quic: &[QuicBinding],
        halves: Halves<'_>,
        grace: &Grace,
    ) -> Result<(), Error> {
        let (mut singles, mut prefixes) = (Singles::default(), BTreeMap::new());
        for binding in bindings {
            let key = binding.key();
            if binding.prefix_bits == 128 {
                singles.exact.insert(transmute!(key), binding.service.0);
            } else {
                let bits = PrefixKey::LEADING_BITS + u32::from(binding.prefix_bits);
                prefixes.insert((bits, rest(&key)), binding.service.0);
            }
        }
        let mut around = BTreeMap::new();
        for (address, bits, vip) in vips(bindings) {
            let vip: u32 = transmute!(vip);
            if bits == 128 {
                singles.vips.insert(address, vip);
            } else {
                around.insert((u32::from(bits), address), vip);
            }
        }
        let quic = quic
            .iter()
            .map(|binding| (transmute!(QuicKey::new(binding.service, binding.server_id)), binding.backend))
            .collect();
        let wait = &mut Wait { freed: &mut self.freed, grace };
        // Virtual prefixes before services and after them: a service is never without its VIP.
        self.vip_prefixes.add(&around, wait)?;
        self.quic.become_like(quic, wait)?;
        if singles != self.singles {
            wait.before_taking();
            let at = fill(&singles, halves)?;
            let (known, before) =
                (std::mem::replace(&mut self.singles, singles), halves.settings.directory());
            step::comes();
            halves.settings.set_directory(at);
            self.before = Some((before, known));
            *wait.freed = true;
        }
        self.prefixes.become_like(prefixes, wait)?;
        self.vip_prefixes.become_like(around, wait)
    }
}

/// Puts the directory right if it does not say what it should; how many keys were wrong, at least one.
fn repair_singles(wanted: &Singles, halves: Halves<'_>, wait: &mut Wait<'_>) -> Result<u32, Error> {
    let wrong = halves.differences(wanted);
    if wrong != 0 {
        // Whoever changed it may have put the other half in use a moment ago.
        *wait.freed = true;
        wait.before_taking();
        halves.settings.set_directory(fill(wanted, halves)?);
        *wait.freed = true;
    }
    Ok(wrong)
}

fn fill(singles: &Singles, halves: Halves<'_>) -> Result<At, Error> {
    halves.fill_other(singles).ok_or_else(|| Error::Full {
        map: tables::DIRECTORY.name,
        reason: "there is no room for so many addresses and ports".into(),
    })
}

fn binding(key: &ServiceKey, prefix_bits: u8, service: u16) -> Binding {
    let (address, protocol) = (key.address, key.protocol);
    Binding {
        address,
        prefix_bits,
        port: u16::from_be_bytes(key.port),
        protocol,
        service: ServiceId(service),
    }
}

/// What follows the first word of a [`PrefixKey`].
fn rest(key: &ServiceKey) -> [u8; 20] {
    let [_, rest @ ..]: [[u8; 4]; 6] = transmute!(PrefixKey::of(key));
    transmute!(rest)
}

/// Frees no element while one that was freed before may still be looked at.
struct Wait<'a> {
    freed: &'a mut bool,
    grace: &'a Grace,
}

impl Wait<'_> {
    /// Before an element is taken.
    fn before_taking(&mut self) {
        if *self.freed && self.grace.wait() {
            *self.freed = false;
        }
    }
}

/// A map with what is in it.
#[derive(Debug)]
struct Mirror<M: Entries> {
    shape: Shape,
    map: M,
    held: Held<M>,
    /// What the present change has done so far: keys, and what they were before.
    steps: Vec<(M::Key, Option<M::Value>)>,
}

/// What is in a map.
type Held<M> = BTreeMap<<M as Entries>::Key, <M as Entries>::Value>;

impl<M: Entries> Mirror<M> {
    fn new(shape: Shape, map: M) -> Result<Self, Error> {
        let held =
            map.entries().map_err(|error| Error::Map { map: shape.name, reason: error.to_string() })?;
        Ok(Self { shape, map, held, steps: Vec::new() })
    }

    /// Adds the keys that are new.
    fn add(&mut self, wanted: &Held<M>, wait: &mut Wait<'_>) -> Result<(), Error> {
        for (key, value) in wanted {
            if !self.held.contains_key(key) {
                wait.before_taking();
                self.set(*key, *value)?;
            }
        }
        Ok(())
    }

    fn become_like(&mut self, wanted: Held<M>, wait: &mut Wait<'_>) -> Result<(), Error> {
        self.add(&wanted, wait)?;
        for (key, value) in &wanted {
            if self.held.get(key) != Some(value) {
                wait.before_taking();
                self.set(*key, *value)?;
                *wait.freed = true;
            }
        }
        let gone: Vec<_> = self.held.keys().filter(|key| !wanted.contains_key(key)).copied().collect();
        for key in gone {
            self.take(key, wait)?;
        }
        Ok(())
    }

    /// Makes the map say again what it should; how many entries it did not.
    fn repair(&mut self, its_turn: bool, wait: &mut Wait<'_>) -> Result<u32, Error> {
        if self.held.len() > LARGE && !its_turn {
            return Ok(0);
        }
        let failed = |error: MapError| Error::Map { map: self.shape.name, reason: describe(&error) };
        let found = self.map.entries().map_err(failed)?;
        if found == self.held {
            return Ok(0);
        }
        let wanted = std::mem::replace(&mut self.held, found);
        let differs = wanted.iter().filter(|(key, value)| self.held.get(key) != Some(value)).count()
            + self.held.keys().filter(|key| !wanted.contains_key(key)).count();
        // Foreign entries first, since they may have filled it.
        let foreign: Vec<_> = self.held.keys().filter(|key| !wanted.contains_key(key)).copied().collect();
        let result = foreign
            .into_iter()
            .try_for_each(|key| self.take(key, wait))
            .and_then(|()| self.become_like(wanted.clone(), wait));
        // Whatever came of it, this is what the map should say, and the next round compares with it.
        self.held = wanted;
        result.map(|()| u32::try_from(differs).unwrap_or(u32::MAX))
    }

    /// Undoes its steps, last first.
    fn step_back(&mut self, wait: &mut Wait<'_>) -> Result<(), Error> {
        for (key, before) in std::mem::take(&mut self.steps).into_iter().rev() {
            match before {
                Some(value) => {
                    wait.before_taking();
                    self.set(key, value)?;
                    *wait.freed = true;
                }
                None => self.take(key, wait)?,
            }
        }
        Ok(())
    }

    fn set(&mut self, key: M::Key, value: M::Value) -> Result<(), Error> {
        let full = |error: MapError| Error::Full { map: self.shape.name, reason: describe(&error) };
        step::comes();
        self.map.put(&key, value).map_err(full)?;
        let before = self.held.insert(key, value);
        self.steps.push((key, before));
        Ok(())
    }

    fn take(&mut self, key: M::Key, wait: &mut Wait<'_>) -> Result<(), Error> {
        step::comes();
        self.map.take(&key).map_err(|error| Error::Map { map: self.shape.name, reason: describe(&error) })?;
        let before = self.held.remove(&key);
        self.steps.push((key, before));
        *wait.freed = true;
        Ok(())
    }
}

/// What a mirror needs of a map.
trait Entries: Sized {
    type Key: Ord + Copy + std::fmt::Debug;
    type Value: PartialEq + Copy + std::fmt::Debug;

    fn entries(&self) -> Result<Held<Self>, MapError>;
    fn put(&mut self, key: &Self::Key, value: Self::Value) -> Result<(), MapError>;
    fn take(&mut self, key: &Self::Key) -> Result<(), MapError>;
}

impl<K, V> Entries for HashMap<MapData, K, V>
where
    K: aya::Pod + Ord + std::fmt::Debug,
    V: aya::Pod + PartialEq + std::fmt::Debug,
{
    type Key = K;
    type Value = V;

    fn entries(&self) -> Result<Held<Self>, MapError> {
        self.iter().collect()
    }

    fn put(&mut self, key: &K, value: V) -> Result<(), MapError> {
        self.insert(key, value, 0)
    }

    fn take(&mut self, key: &K) -> Result<(), MapError> {
        self.remove(key)
    }
}

impl<K, V> Entries for LpmTrie<MapData, K, V>
where
    K: aya::Pod + Ord + std::fmt::Debug,
    V: aya::Pod + PartialEq + std::fmt::Debug,
{
    /// Significant bits, and what they are of.
    type Key = (u32, K);
    type Value = V;

    fn entries(&self) -> Result<Held<Self>, MapError> {
        self.iter().map(|entry| entry.map(|(key, value)| ((key.prefix_len(), key.data()), value))).collect()
    }

    fn put(&mut self, (bits, data): &(u32, K), value: V) -> Result<(), MapError> {
        self.insert(&Key::new(*bits, *data), value, 0)
    }

    fn take(&mut self, (bits, data): &(u32, K)) -> Result<(), MapError> {
        self.remove(&Key::new(*bits, *data))
    }
}

fn open<M: TryFrom<Map, Error = MapError>>(
    shape: Shape,
    find: &impl Fn(Shape) -> Result<Map, Error>,
) -> Result<M, Error> {
    M::try_from(find(shape)?).map_err(|error| Error::Map { map: shape.name, reason: error.to_string() })
}

const _: () = assert!(size_of::<Vip>() == 4 && size_of::<ServiceId>() == 2);
