//! What is to be known of services: what holds of several is told once.

/// More services than this are not named one by one.
const NAMED: usize = 5;

/// Each text once, in the order of their first services, behind the names of those that it is about.
pub(crate) fn told_once(notes: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
    let mut told: Vec<(String, Vec<String>)> = Vec::new();
    for (service, text) in notes {
        match told.iter_mut().find(|(known, _)| *known == text) {
            Some((_, services)) => services.push(service),
            None => told.push((text, vec![service])),
        }
    }
    told.into_iter().map(|(text, services)| format!("{}: {text}", named(&services))).collect()
}

fn named(services: &[String]) -> String {
    match services {
        [one] => format!("service {one}"),
        some if some.len() <= NAMED => format!("services {}", some.join(", ")),
        many => format!("services {} and {} more", many[..NAMED].join(", "), many.len() - NAMED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_of_several_services_is_told_once() {
        let note = |service: &str, text: &str| (service.to_owned(), text.to_owned());
        let told = told_once([note("web", "small"), note("dns", "odd"), note("mail", "small")]);
        assert_eq!(told, ["services web, mail: small", "service dns: odd"]);
        let many = (0..7).map(|n| note(&n.to_string(), "small"));
        assert_eq!(told_once(many), ["services 0, 1, 2, 3, 4 and 2 more: small"]);
    }
}
