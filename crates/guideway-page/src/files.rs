//! The files of each page, one a line. A test holds the lists to what lies in `web`.

use crate::Asset;

macro_rules! assets {
    ($folder:literal: $($path:literal)*) => {
        &[$(Asset {
            path: $path,
            content_type: content_type($path),
            bytes: include_bytes!(concat!("../../../web/", $folder, "/", $path)),
        }),*]
    };
}

pub(crate) const LAB: &[Asset] = assets! { "lab":
    "css/cells.css"
    "css/controls.css"
    "css/page.css"
    "css/tokens.css"
    "css/views.css"
    "guideway.wasm"
    "icon.svg"
    "index.html"
    "js/board.js"
    "js/boot.js"
    "js/change-view.js"
    "js/chart.js"
    "js/command-line.js"
    "js/compare-view.js"
    "js/dom.js"
    "js/draft-view.js"
    "js/experiments.js"
    "js/library.js"
    "js/link.js"
    "js/lookup-view.js"
    "js/main.js"
    "js/palette.js"
    "js/player.js"
    "js/replay.js"
    "js/session.js"
    "js/setup-panel.js"
    "js/shell.js"
    "js/state.js"
    "js/theme.js"
    "js/tour-view.js"
    "js/words.js"
};

pub(crate) const CONSOLE: &[Asset] = assets! { "console":
    "css/console.css"
    "css/services.css"
    "index.html"
    "js/api.js"
    "js/attention-view.js"
    "js/backend-table.js"
    "js/command-list.js"
    "js/commands.js"
    "js/drain.js"
    "js/events-view.js"
    "js/feed.js"
    "js/judge.js"
    "js/keyed.js"
    "js/main.js"
    "js/picking.js"
    "js/rates.js"
    "js/route.js"
    "js/select.js"
    "js/service-view.js"
    "js/services-view.js"
    "js/status-view.js"
    "js/token-form.js"
    "js/words.js"
};

/// The media type by the ending of a name.
const fn content_type(path: &str) -> &'static str {
    match path.as_bytes() {
        [.., b'.', b'h', b't', b'm', b'l'] => "text/html; charset=utf-8",
        [.., b'.', b'c', b's', b's'] => "text/css; charset=utf-8",
        [.., b'.', b'j', b's'] => "text/javascript; charset=utf-8",
        [.., b'.', b's', b'v', b'g'] => "image/svg+xml",
        [.., b'.', b'w', b'a', b's', b'm'] => "application/wasm",
        _ => panic!("a file of a type that is not known here; add it above"),
    }
}
