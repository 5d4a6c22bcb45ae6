//! Whether an interface can run the program, and in which mode.

use std::path::Path;

use guideway_forward::record::LAYOUT_VERSION;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};

use super::ethtool::{Driver, Flag, LARGE_RECEIVE, Queues, VLAN_TAGS};
use super::features::Features;
use super::{Finding, InterfaceReport, Subject};
use crate::attach::{Mode, Wish};
use crate::error::Stranger;
use crate::occupant::{link, occupant};
use crate::peer::{Peer, joined_by_peer, peer, unfinished_by_peer};

/// What fits one page beside the head room that every driver leaves and what the kernel keeps behind the frame: 4,096
/// less 256, 320 and an Ethernet header with two tags. The program takes frames of one page only.
const LARGEST_MTU: u32 = 4_096 - 256 - 320 - 22;

/// What a tunnel of IPv4 in IPv4 adds.
const TUNNEL_BYTES: u32 = 20;

/// The MTU of nearly every network, which is nothing to be warned of.
const ETHERNET: u32 = 1_500;

const SLOW: &str = "mode generic: every packet is made a socket buffer first, which takes most of its time";

pub(super) fn examine(name: &str, wish: Wish, pins: &Path) -> InterfaceReport {
    let subject = || Subject::Interface(name.to_owned());
    let report = |mode, findings| InterfaceReport { interface: name.to_owned(), mode, findings };
    let Ok(index) = nix::net::if_::if_nametoindex(name) else {
        let cause = "there is no such interface in this network namespace";
        return report(None, vec![Finding::fail(subject(), cause, "ip link")]);
    };
    let link = match link(index) {
        Ok(link) => link,
        Err(error) => {
            let cause = format!("the kernel tells nothing of it: {error}");
            return report(None, vec![Finding::fail(subject(), cause, "ip link show dev")]);
        }
    };
    let driver = Driver::of(name).ok();
    let seen = Seen {
        name,
        up: link.header.flags.contains(LinkFlags::Up),
        mtu: mtu(&link),
        is_vlan: is_vlan(&link),
        driver: driver.as_ref().and_then(Driver::name).unwrap_or_default(),
        features: Features::of(index),
        objection: peer(name, index).ok().and_then(|peer| peer.objection()),
        joined: joined_by_peer(index),
        unfinished: unfinished_by_peer(index),
        gro: driver.as_ref().and_then(|driver| driver.flag(Flag::Gro)).is_some_and(|value| value != 0),
        flags: driver.as_ref().and_then(|driver| driver.flag(Flag::More)).unwrap_or(0),
        queues: driver.as_ref().and_then(Driver::receive_queues),
        // Not those that there may be one day: in a virtual machine that can be hundreds.
        cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
    };
    let mut findings = vec![seen.state()];
    findings.push(program(name, index, pins));
    let (mode, why) = seen.mode(wish);
    findings.extend(why);
    if let Some(mode) = mode {
        findings.extend(seen.in_mode(mode));
    }
    findings.extend(seen.size());
    report(mode, findings)
}

/// What is known of the interface.
struct Seen<'a> {
    name: &'a str,
    up: bool,
    mtu: u32,
    is_vlan: bool,
    driver: String,
    /// `None` where the kernel does not tell.
    features: Option<Features>,
    /// What the other end of a pair has against native mode.
    objection: Option<String>,
    /// What the other end of a pair does to generic mode, and the remedy.
    joined: Option<(String, String)>,
    /// What it does to native mode, and the remedy.
    unfinished: Option<(String, String)>,
    gro: bool,
    flags: u32,
    queues: Option<Queues>,
    cpus: u32,
}

impl Seen<'_> {
    fn subject(&self) -> Subject {
        Subject::Interface(self.name.to_owned())
    }

    fn state(&self) -> Finding {
        let name = self.name;
        if !self.up {
            let remedy = format!("ip link set dev {name} up");
            return Finding::warn(self.subject(), "it is down", remedy);
        }
        let driver = if self.driver.is_empty() { "no driver of its own" } else { &self.driver };
        Finding::ok(self.subject(), format!("it is up: {driver}, MTU {}", self.mtu))
    }

    /// The mode in which the program would run, and what speaks against native mode.
    fn mode(&self, wish: Wish) -> (Option<Mode>, Vec<Finding>) {
        let against = self.against_native();
        match wish {
            Wish::Exactly(Mode::Generic) => {
                let remedy = "use an interface whose driver runs programs, for speed";
                (Some(Mode::Generic), vec![Finding::warn(self.subject(), SLOW, remedy)])
            }
            _ if against.is_empty() => {
                let told = match self.features {
                    Some(_) => "mode native: the driver runs programs",
                    None => {
                        "mode native, if the driver runs programs: this kernel, before 6.3, does not tell"
                    }
                };
                (Some(Mode::Native), vec![Finding::ok(self.subject(), told)])
            }
            Wish::Exactly(Mode::Native) => {
                let fail = |(cause, remedy)| Finding::fail(self.subject(), cause, remedy);
                (None, against.into_iter().map(fail).collect())
            }
            // What speaks against native mode is what there is to do about it.
            Wish::Auto => {
                let warn = |(place, (cause, remedy)): (usize, (String, String))| {
                    let because = if place == 0 { format!("{SLOW}, since {cause}") } else { cause };
                    Finding::warn(self.subject(), because, remedy)
                };
                (Some(Mode::Generic), against.into_iter().enumerate().map(warn).collect())
            }
        }
    }

    /// Causes and remedies.
    fn against_native(&self) -> Vec<(String, String)> {
        let name = self.name;
        let mut against = Vec::new();
        if self.is_vlan {
            against.push((
                "it is a VLAN's interface, which runs no programs".to_owned(),
                "attach to the interface below it (`ip -d link show` names it after @): tags are understood"
                    .to_owned(),
            ));
        } else if self.features.is_some_and(|features| !features.runs_programs()) {
            against.push((
                match self.driver.as_str() {
                    "" => "its driver runs no programs".to_owned(),
                    driver => format!("the driver ({driver}) runs no programs"),
                },
                "use generic mode, or a card whose driver runs them".to_owned(),
            ));
        }
        if self.mtu > LARGEST_MTU {
            against.push((
                format!(
                    "its MTU {} is above {LARGEST_MTU}, the most that fits one page with a program",
                    self.mtu
                ),
                format!("ip link set dev {name} mtu {LARGEST_MTU} (jumbo frames need generic mode)"),
            ));
        }
        if self.flags & LARGE_RECEIVE != 0 {
            against.push((
                "the card joins packets that it receives (LRO) before a program sees them".to_owned(),
                format!("ethtool -K {name} lro off"),
            ));
        }
        if let Some(objection) = &self.objection {
            against.push((objection.clone(), Peer::REMEDY.to_owned()));
        }
        against
    }

    fn in_mode(&self, mode: Mode) -> Vec<Finding> {
        let name = self.name;
        let mut findings = Vec::new();
        if mode == Mode::Generic && self.gro {
            findings.push(Finding::fail(
                self.subject(),
                "packets are joined (GRO) before a program in generic mode sees them, and then fit no tunnel",
                format!("ethtool -K {name} gro off"),
            ));
        }
        let by_peer = match mode {
            Mode::Generic => &self.joined,
            Mode::Native => &self.unfinished,
        };
        if let Some((cause, remedy)) = by_peer {
            findings.push(Finding::warn(self.subject(), cause, remedy));
        }
        if let Some(cause) = tags_taken_off(mode, self.flags, &self.driver) {
            let remedy = format!("ethtool -K {name} rxvlan off (if there are VLANs)");
            findings.push(Finding::warn(self.subject(), cause, remedy));
        }
        // A pair has none in hardware: whoever sends does the work of both ends.
        let queues = self.queues.filter(|queues| queues.now > 0 && self.driver != "veth");
        if let Some(Queues { now: queues, most, kind }) = queues {
            let cpus = self.cpus;
            let s = if queues == 1 { "" } else { "s" };
            let more = most.min(cpus);
            findings.push(if queues >= cpus {
                Finding::ok(self.subject(), format!("{queues} receive queue{s} for {cpus} CPUs: all can forward"))
            } else if more > queues {
                let cause = format!("packets come by {queues} receive queue{s}, so that {queues} of {cpus} CPUs can forward");
                let remedy = format!("ethtool -L {name} {kind} {more} (the card has up to {most}), if more than that are needed");
                Finding::warn(self.subject(), cause, remedy)
            } else {
                let cause = format!(
                    "packets come by {queues} receive queue{s}, all that the card has, so that {queues} of {cpus} CPUs can \
                     forward"
                );
                Finding::ok(self.subject(), cause)
            });
        }
        findings
    }

    /// What fits a tunnel, where that is less than clients may send.
    fn size(&self) -> Option<Finding> {
        let Seen { name, mtu, .. } = *self;
        let fits = mtu.saturating_sub(TUNNEL_BYTES);
        let cause = format!(
            "in its MTU of {mtu} a tunnel to a backend has room for packets of {fits} bytes (ipip over IPv4; in others for less): \
             a client that sends a larger one is told what fits and sends again, and TCP clients of backends that \
             `guideway backend up` has set up never do"
        );
        match mtu {
            ..ETHERNET => {
                let remedy = format!("ip link set dev {name} mtu {ETHERNET}, if the network carries that");
                Some(Finding::warn(self.subject(), cause, remedy))
            }
            _ if fits < ETHERNET => Some(Finding::ok(self.subject(), cause)),
            _ => None,
        }
    }
}

/// What comes of a card that takes the tags of VLANs off frames, and hands them over beside; a pair of links is no card.
fn tags_taken_off(mode: Mode, flags: u32, driver: &str) -> Option<&'static str> {
    if flags & VLAN_TAGS == 0 || driver == "veth" {
        return None;
    }
    Some(match mode {
        Mode::Native => "the card takes tags of VLANs off, so that the program neither sees nor sends them",
        Mode::Generic => {
            "the card takes tags of VLANs off before a program in generic mode sees them: it serves every VLAN as if there were \
             none, and has no say in the tag of what it sends"
        }
    })
}

/// Whose program is there.
fn program(name: &str, index: u32, pins: &Path) -> Finding {
    let subject = Subject::Interface(name.to_owned());
    let ours = pins.join(format!("v{LAYOUT_VERSION}"));
    let pinned = |mode: Mode| ours.join(format!("{}-{index}", mode.as_str())).exists();
    match occupant(name, index) {
        Ok(None) => Finding::ok(subject, "no XDP program is attached"),
        Ok(Some(found))
            if found.name == crate::balancer::PROGRAM && (pinned(Mode::Native) || pinned(Mode::Generic)) =>
        {
            Finding::ok(subject, format!("guideway's program is attached (id {})", found.id))
        }
        Ok(Some(found)) => {
            let stranger = Stranger { interface: name, name: &found.name, id: found.id };
            Finding::fail(subject, stranger.to_string(), stranger.remedy())
        }
        Err(error) => Finding::fail(subject, error.to_string(), "ip -d link show"),
    }
}

fn mtu(link: &LinkMessage) -> u32 {
    let mtu = |attribute: &LinkAttribute| match attribute {
        LinkAttribute::Mtu(mtu) => Some(*mtu),
        _ => None,
    };
    link.attributes.iter().find_map(mtu).unwrap_or(0)
}

fn is_vlan(link: &LinkMessage) -> bool {
    link.attributes.iter().any(|attribute| match attribute {
        LinkAttribute::LinkInfo(info) => info.contains(&LinkInfo::Kind(InfoKind::Vlan)),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    fn card() -> Seen<'static> {
        Seen {
            name: "eth0",
            up: true,
            mtu: 1_500,
            is_vlan: false,
            driver: "mlx5_core".into(),
            features: None,
            objection: None,
            joined: None,
            unfinished: None,
            gro: true,
            flags: 0,
            queues: Some(Queues { now: 8, most: 64, kind: "combined" }),
            cpus: 8,
        }
    }

    fn causes(findings: &[Finding], grade: Grade) -> String {
        let those = findings.iter().filter(|finding| finding.grade == grade);
        those
            .map(|finding| format!("{}|{}\n", finding.cause, finding.remedy.clone().unwrap_or_default()))
            .collect()
    }

    #[test]
    fn a_good_card_runs_it_natively() {
        let (mode, findings) = card().mode(Wish::Auto);
        assert_eq!(mode, Some(Mode::Native));
        assert!(findings.iter().all(|finding| finding.grade == Grade::Ok));
        assert!(card().in_mode(Mode::Native).iter().all(|finding| finding.grade == Grade::Ok));
    }

    #[test]
    fn what_forbids_native_mode_fails_it_and_is_told_when_it_is_given_up() {
        let bad = [
            (Seen { mtu: 9_000, ..card() }, "MTU 9000", "mtu 3498"),
            (Seen { flags: LARGE_RECEIVE, ..card() }, "LRO", "ethtool -K eth0 lro off"),
            (Seen { is_vlan: true, ..card() }, "VLAN", "below it"),
        ];
        for (seen, cause, remedy) in bad {
            let (mode, findings) = seen.mode(Wish::Exactly(Mode::Native));
            let failed = causes(&findings, Grade::Fail);
            assert!(mode.is_none() && failed.contains(cause) && failed.contains(remedy), "{failed}");
            let (mode, findings) = seen.mode(Wish::Auto);
            let warned = causes(&findings, Grade::Warn);
            assert!(
                mode == Some(Mode::Generic) && warned.contains("mode generic") && warned.contains(cause),
                "{warned}"
            );
        }
    }

    #[test]
    fn too_few_queues_and_tags_taken_off_are_warned_of() {
        let queues = |kind| Some(Queues { now: 2, most: 4, kind });
        let few = Seen { queues: queues("combined"), flags: VLAN_TAGS, ..card() };
        let warned = causes(&few.in_mode(Mode::Native), Grade::Warn);
        assert!(warned.contains("ethtool -L eth0 combined 4") && warned.contains("rxvlan off"), "{warned}");
        let apart = Seen { queues: queues("rx"), ..card() };
        assert!(causes(&apart.in_mode(Mode::Native), Grade::Warn).contains("ethtool -L eth0 rx 4"));
        let pair = Seen { queues: queues("rx"), driver: "veth".into(), ..card() };
        assert_eq!(causes(&pair.in_mode(Mode::Native), Grade::Warn), "");
    }

    #[test]
    fn tags_that_a_card_takes_off_are_missed_in_either_mode_and_a_pair_of_links_takes_none_off() {
        for mode in [Mode::Native, Mode::Generic] {
            assert!(tags_taken_off(mode, VLAN_TAGS | LARGE_RECEIVE, "ixgbe").is_some(), "{mode:?}");
            assert_eq!(tags_taken_off(mode, LARGE_RECEIVE, "ixgbe"), None);
            assert_eq!(tags_taken_off(mode, VLAN_TAGS, "veth"), None);
            let card = Seen { flags: VLAN_TAGS, ..card() };
            let warned = causes(&card.in_mode(mode), Grade::Warn);
            assert!(warned.contains("ethtool -K eth0 rxvlan off"), "{mode:?}: {warned}");
        }
    }

    #[test]
    fn joined_packets_fail_generic_mode() {
        let failed = causes(&card().in_mode(Mode::Generic), Grade::Fail);
        assert!(failed.contains("ethtool -K eth0 gro off"), "{failed}");
    }

    #[test]
    fn generic_mode_on_a_pair_is_warned_of_what_the_other_end_joins() {
        let joined = Some(("many packets as one".to_owned(), "ethtool -K port7 tso off gso off".to_owned()));
        let pair = Seen { joined, ..card() };
        let warned = |mode| causes(&pair.in_mode(mode), Grade::Warn);
        assert!(warned(Mode::Generic).contains("ethtool -K port7 tso off gso off"));
        assert!(!warned(Mode::Native).contains("tso off"));
    }

    #[test]
    fn queues_are_warned_of_only_where_the_card_has_more() {
        let all = Seen { queues: Some(Queues { now: 1, most: 1, kind: "combined" }), ..card() };
        let findings = all.in_mode(Mode::Native);
        assert_eq!(causes(&findings, Grade::Warn), "");
        let told = causes(&findings, Grade::Ok);
        assert!(
            told.contains("1 receive queue, all that the card has, so that 1 of 8 CPUs can forward"),
            "{told}"
        );
    }

    #[test]
    fn what_fits_a_tunnel_is_told_and_warned_of_only_below_the_usual_mtu() {
        let at = |mtu| Seen { mtu, ..card() }.size().map(|finding| (finding.grade, finding.cause));
        let (grade, cause) = at(1_500).unwrap();
        assert!(grade == Grade::Ok && cause.contains("packets of 1480 bytes"), "{cause}");
        assert_eq!(at(1_400).unwrap().0, Grade::Warn);
        assert_eq!(at(1_520), None);
    }
}
