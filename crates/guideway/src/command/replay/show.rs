//! The books of a replay as people read them.

use std::io::{self, Write};

use guideway_control::counted;
use guideway_control::replay::{Books, ServiceBooks};
use guideway_forward::{Event, Outcome};

use super::Told;
use crate::columns::{Align, Columns};
use crate::screen::{Screen, Style};

/// Everything, each part under a line that says what it is.
pub(super) fn books(screen: &mut Screen, told: &Told, books: &Books) -> io::Result<()> {
    capture(screen, told, books)?;
    outcomes(screen, books)?;
    events(screen, books)?;
    services(screen, books)?;
    changes(screen, books)
}

fn heading(screen: &mut Screen, text: &str) -> io::Result<()> {
    let text = screen.paint(Style::Heading, text);
    writeln!(screen, "\n{text}")
}

fn capture(screen: &mut Screen, told: &Told, books: &Books) -> io::Result<()> {
    write!(screen, "{} read", counted(told.packets, "packet", "packets"))?;
    let left = [
        (told.snapped, "cut short by the capture (a snap length)"),
        (told.unsupported_link, "of a link that is neither Ethernet nor IP"),
        (told.too_short, "shorter than a link header"),
    ];
    for (packets, why) in left.into_iter().filter(|(packets, _)| *packets > 0) {
        write!(screen, ", {packets} left out: {why}")?;
    }
    writeln!(
        screen,
        "\n{} received = {} forwarded + {} answered + {} passed + {} dropped",
        books.received, books.forwarded, books.answered, books.passed, books.dropped
    )
}

fn outcomes(screen: &mut Screen, books: &Books) -> io::Result<()> {
    heading(screen, "What became of each packet")?;
    let mut table =
        Columns::new([("outcome", Align::Left), ("packets", Align::Right), ("meaning", Align::Left)]);
    for outcome in Outcome::ALL {
        if let Some(packets) = books.outcomes.get(outcome.as_str()) {
            table.row([outcome.as_str().to_owned(), packets.to_string(), outcome.meaning().to_owned()]);
        }
    }
    table.write(screen)
}

fn events(screen: &mut Screen, books: &Books) -> io::Result<()> {
    if books.events.is_empty() {
        return Ok(());
    }
    heading(screen, "What happened besides")?;
    let mut table = Columns::new([("event", Align::Left), ("times", Align::Right), ("meaning", Align::Left)]);
    for event in Event::ALL {
        if let Some(times) = books.events.get(event.as_str()) {
            table.row([event.as_str().to_owned(), times.to_string(), event.meaning().to_owned()]);
        }
    }
    table.write(screen)
}

fn services(screen: &mut Screen, books: &Books) -> io::Result<()> {
    if books.services.is_empty() {
        return heading(screen, "No service: nothing in the capture is for a server");
    }
    heading(screen, "What each service forwarded, and to which of its backends")?;
    for service in &books.services {
        one_service(screen, service)?;
    }
    Ok(())
}

fn one_service(screen: &mut Screen, service: &ServiceBooks) -> io::Result<()> {
    let title = screen.paint(Style::Heading, &service.name);
    write!(
        screen,
        "\n{title}: {}, {}; a table of {} slots, generation {}",
        counted(service.packets, "packet", "packets"),
        counted(service.bytes_total, "byte", "bytes"),
        service.slots,
        service.generation
    )?;
    if service.unsettled_slots > 0 {
        write!(
            screen,
            ", {} still unsettled (older flows may be on another backend)",
            counted(service.unsettled_slots, "slot", "slots")
        )?;
    }
    writeln!(screen, "; digest {}", service.digest)?;
    let mut backends = Columns::new([
        ("backend", Align::Left),
        ("state", Align::Left),
        ("slots", Align::Right),
        ("packets", Align::Right),
        ("bytes", Align::Right),
    ]);
    for backend in &service.backends {
        backends.row([
            backend.name.clone(),
            backend.state.to_owned(),
            backend.slots.to_string(),
            backend.packets.to_string(),
            backend.bytes_total.to_string(),
        ]);
    }
    backends.write(screen)
}

fn changes(screen: &mut Screen, books: &Books) -> io::Result<()> {
    if books.changes.is_empty() {
        return Ok(());
    }
    heading(screen, "What each scripted change moved")?;
    let mut table = Columns::new([
        ("at", Align::Right),
        ("service", Align::Left),
        ("generation", Align::Right),
        ("slots moved", Align::Right),
        ("needlessly", Align::Right),
        ("flows broken", Align::Right),
    ]);
    for change in &books.changes {
        table.row([
            format!("{:.3} s", change.at_seconds),
            change.service.clone(),
            change.generation.to_string(),
            format!("{} of {}", change.moved, change.slots),
            change.needless.to_string(),
            change.voided_flows.to_string(),
        ]);
    }
    table.write(screen)
}
