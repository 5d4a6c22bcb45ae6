//! What the signs and words of a table mean, below the table and only where they stand in it.

use std::io::Write;

use guideway_daemon::model::{Backend, Service};

use crate::failure::Failure;
use crate::screen::{Screen, Style};

const OVERRIDDEN: &str =
    "* an operator said so; with `guideway reset SERVICE BACKEND` the configuration holds again";
const UNSETTLED: &str = "unsettled: older flows of such a slot may be on the backend that had it before; it settles an idle time after its \
     last change, or when they have ended, if that is later";
const QUIET: &str = "quiet: no live flow is seen; one that is silent may be left until its slot settles";

/// Below services.
pub(super) fn of_services(services: &[Service], screen: &mut Screen) -> Result<(), Failure> {
    if services.iter().any(|service| service.unsettled_slots > 0) {
        line(UNSETTLED, screen)?;
    }
    of_backends(services.iter().flat_map(|service| &service.backends), screen)
}

/// Below backends.
pub(crate) fn of_backends<'a>(
    backends: impl Iterator<Item = &'a Backend> + Clone,
    screen: &mut Screen,
) -> Result<(), Failure> {
    if backends.clone().any(|backend| backend.drain.as_ref().is_some_and(|drain| drain.phase == "quiet")) {
        line(QUIET, screen)?;
    }
    if backends.clone().any(|backend| !backend.overrides.is_empty()) {
        line(OVERRIDDEN, screen)?;
    }
    Ok(())
}

fn line(text: &str, screen: &mut Screen) -> Result<(), Failure> {
    if !screen.has_headings() {
        return Ok(());
    }
    let text = screen.paint(Style::Faint, format!("  {text}"));
    writeln!(screen, "{text}")?;
    Ok(())
}
