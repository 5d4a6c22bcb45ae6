//! Services that another configuration has under another name: their clients know them by where they listen, and lose
//! nothing to a name.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ipnet::IpNet;

use super::{Config, Protocol, Service};

/// The new name of each service that has one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renames(BTreeMap<String, String>);

impl Renames {
    /// Whether no service has another name.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The new name of a service, if it has one.
    pub fn of(&self, service: &str) -> Option<&str> {
        self.0.get(service).map(String::as_str)
    }

    /// Names before and after, in the order of those before.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(from, to)| (from.as_str(), to.as_str()))
    }

    /// The names that services get.
    pub fn new_names(&self) -> HashSet<&str> {
        self.0.values().map(String::as_str).collect()
    }

    /// Has a configuration call its services so.
    pub fn rename_in(&self, config: &mut Config) {
        for service in &mut config.services {
            if let Some(name) = self.of(&service.name) {
                service.name = name.to_owned();
            }
        }
    }

    /// The way back.
    #[must_use]
    pub fn reversed(&self) -> Self {
        self.iter().map(|(from, to)| (to.to_owned(), from.to_owned())).collect()
    }
}

impl FromIterator<(String, String)> for Renames {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(names: T) -> Self {
        Self(names.into_iter().collect())
    }
}

/// The services that only changed their names, or more than that: one that is gone by name and one that is new, of which each
/// shares a place to listen with the other and with nobody else of these.
pub fn renamed(before: &Config, after: &Config) -> Renames {
    let (gone, new) = (missing(before, after), missing(after, before));
    if gone.is_empty() || new.is_empty() {
        return Renames::default();
    }
    let owner: HashMap<Place, &str> = gone
        .into_iter()
        .flat_map(|service| places(service).map(|place| (place, service.name.as_str())))
        .collect();
    let mut takers: HashMap<&str, BTreeSet<&str>> = HashMap::new();
    let mut givers: HashMap<&str, BTreeSet<&str>> = HashMap::new();
    for to in new {
        for from in places(to).filter_map(|place| owner.get(&place).copied()) {
            takers.entry(from).or_default().insert(&to.name);
            givers.entry(&to.name).or_default().insert(from);
        }
    }
    let only = |names: &BTreeSet<&str>| names.len() == 1;
    let alone = givers.iter().filter(|(_, froms)| only(froms));
    let pairs = alone.flat_map(|(to, froms)| froms.iter().map(|from| (*from, *to)));
    let pairs = pairs.filter(|(from, _)| takers.get(from).is_some_and(only));
    pairs.map(|(from, to)| (from.to_owned(), to.to_owned())).collect()
}

type Place = (IpNet, Option<u16>, Protocol);

fn places(service: &Service) -> impl Iterator<Item = Place> {
    service.vips.iter().flat_map(|vip| service.ports.iter().map(|port| (vip.trunc(), port, service.protocol)))
}

/// The services of one configuration whose names another does not have.
fn missing<'a>(of: &'a Config, from: &Config) -> Vec<&'a Service> {
    let names: HashSet<&str> = from.services.iter().map(|service| service.name.as_str()).collect();
    of.services.iter().filter(|service| !names.contains(service.name.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Source, parse};
    use super::*;

    fn config(services: &[(&str, &str, &str)]) -> Config {
        let service = |(name, port, protocol): &(&str, &str, &str)| {
            format!(
                "[[service]]\nname = \"{name}\"\nvip = [\"192.0.2.10\", \"192.0.2.64/26\"]\nport = {port}\n\
                 protocol = \"{protocol}\"\nbackend = [{{ name = \"be1\", address = \"10.0.0.1\" }}]\n"
            )
        };
        let text: String = services.iter().map(service).collect();
        let text = format!("[underlay]\nsource_v4 = \"10.0.0.254\"\n{text}");
        parse(&Source::new("test.toml".to_owned(), text)).unwrap()
    }

    #[test]
    fn a_service_is_renamed_where_it_alone_takes_the_place_of_one_that_is_gone() {
        let before = config(&[("web", "[80, 443]", "tcp"), ("dns", "53", "udp"), ("mail", "25", "tcp")]);
        let told = |services: &[(&str, &str, &str)]| {
            let told = renamed(&before, &config(services));
            assert_eq!(told.reversed().reversed(), told);
            told.iter().map(|(from, to)| format!("{from} {to}")).collect::<Vec<_>>()
        };
        let rest = [("dns", "53", "udp"), ("mail", "25", "tcp")];
        let with = |more: &[(&'static str, &'static str, &'static str)]| [&rest[..], more].concat();
        assert_eq!(told(&with(&[("site", "[80, 443]", "tcp")])), ["web site"]);
        // More may change than the name.
        assert_eq!(told(&with(&[("site", "[80, 8080]", "tcp")])), ["web site"]);
        for not in [
            with(&[("site", "[80, 443]", "udp")]),
            with(&[("site", "8080", "tcp")]),
            with(&[("http", "80", "tcp"), ("https", "443", "tcp")]),
            vec![("mail", "[80, 443]", "tcp"), ("dns", "53", "udp")],
            vec![("all", "[25, 80, 443]", "tcp"), ("dns", "53", "udp")],
            vec![("web", "[80, 443]", "tcp")],
        ] {
            assert_eq!(told(&not), Vec::<String>::new(), "{not:?}");
        }
        let both = [("site", "[80, 443]", "tcp"), ("names", "53", "udp"), ("mail", "25", "tcp")];
        assert_eq!(told(&both), ["dns names", "web site"]);
    }
}
