//! The pages of the project, embedded: their files with their types, and the headers that a server sends with them.
//!
//! [`LAB`] is the laboratory, [`CONSOLE`] the live console of a daemon. [`Page::find`] is all that an HTTP server needs in order to mount
//! a page under a path of its own; links are relative, and the console takes some of its files from the laboratory beside it, at `../lab/`.
//! [`serve`] is a server of nothing but the laboratory, for those who have no other.
//!
//! ```
//! use guideway_page::{CONSOLE, LAB};
//!
//! let page = LAB.find("").expect("the page itself");
//! assert_eq!(page.content_type, "text/html; charset=utf-8");
//! assert!(CONSOLE.find("js/main.js").is_some() && CONSOLE.find("../Cargo.toml").is_none());
//! ```
#![forbid(unsafe_code)]

mod files;
pub mod serve;

/// The laboratory. Its scripts run the hashing library, which is WebAssembly.
pub static LAB: Page = Page {
    name: "lab",
    files: files::LAB,
    content_security_policy: "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
         img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
};

/// The live console of a daemon: it asks the API beside it, at `../v1/`.
pub static CONSOLE: Page = Page {
    name: "console",
    files: files::CONSOLE,
    content_security_policy: "default-src 'none'; script-src 'self'; style-src 'self'; \
         img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
};

/// A page with all its files.
#[derive(Debug)]
pub struct Page {
    /// The name of its folder in `web`, and of the path at which it is to be mounted.
    pub name: &'static str,
    /// Its files.
    pub files: &'static [Asset],
    /// What it may do: run its own scripts, and nothing from elsewhere. The page says the same of itself, but for who may
    /// frame it, which only a header can say.
    pub content_security_policy: &'static str,
}

impl Page {
    /// The file at `path` below the page, without a slash at its beginning; the page itself at the empty path.
    pub fn find(&self, path: &str) -> Option<&'static Asset> {
        let path = if path.is_empty() { "index.html" } else { path };
        self.files.iter().find(|asset| asset.path == path)
    }

    /// Headers to send with every file of the page, besides its type and its tag.
    pub const fn headers(&self) -> [(&'static str, &'static str); 4] {
        [
            ("Content-Security-Policy", self.content_security_policy),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            // The tag decides; a page of an older build must not outlive it.
            ("Cache-Control", "no-cache"),
        ]
    }
}

/// A file of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// Where it is, below the page: `index.html`, `js/main.js`.
    pub path: &'static str,
    /// Its media type, for `Content-Type`.
    pub content_type: &'static str,
    /// Its bytes.
    pub bytes: &'static [u8],
}

impl Asset {
    /// An entity tag that differs when the bytes do, for `ETag`, quotes included.
    pub fn etag(&self) -> String {
        // FNV-1a: it has to notice a change, not to withstand an attack.
        let hash = self.bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        format!("\"{hash:016x}-{:x}\"", self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn listed(folder: &Path, below: &str, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = format!("{below}{}", entry.file_name().to_str().unwrap());
            if entry.path().is_dir() {
                listed(&entry.path(), &format!("{name}/"), found);
            } else {
                found.insert(name);
            }
        }
    }

    #[test]
    fn every_file_of_the_pages_is_embedded_and_no_other() {
        for page in [&LAB, &CONSOLE] {
            let mut there = BTreeSet::new();
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web").join(page.name);
            listed(&folder, "", &mut there);
            // It tells what the module was built from, which concerns the build alone.
            assert_eq!(there.remove("guideway.wasm.json"), page.name == LAB.name);
            let embedded: BTreeSet<String> = page.files.iter().map(|asset| asset.path.to_owned()).collect();
            assert_eq!(embedded, there);
        }
    }

    #[test]
    fn files_have_the_type_that_browsers_ask_for() {
        let type_of = |path| LAB.find(path).unwrap().content_type;
        assert_eq!(type_of("guideway.wasm"), "application/wasm");
        assert_eq!(type_of("js/main.js"), "text/javascript; charset=utf-8");
        assert_eq!(type_of("css/page.css"), "text/css; charset=utf-8");
        assert_eq!(type_of("icon.svg"), "image/svg+xml");
        assert!(LAB.find("guideway.wasm").unwrap().bytes.starts_with(b"\0asm"));
    }

    #[test]
    fn the_header_allows_what_the_page_allows_itself() {
        for page in [&LAB, &CONSOLE] {
            let html = std::str::from_utf8(page.find("").unwrap().bytes).unwrap();
            let (own, _) = page.content_security_policy.split_once("; frame-ancestors").unwrap();
            assert!(html.contains(&format!("content=\"{own}\"")), "{own}");
        }
    }

    #[test]
    fn what_the_console_takes_from_the_laboratory_is_there() {
        for file in CONSOLE.files {
            let text = std::str::from_utf8(file.bytes).unwrap();
            for (at, _) in text.match_indices("../lab/") {
                let path = text[at + "../lab/".len()..].split(['"', '\'', '`']).next().unwrap();
                assert!(LAB.find(path).is_some(), "{}: {path:?}", file.path);
            }
        }
    }

    #[test]
    fn tags_differ_from_file_to_file() {
        let files = || LAB.files.iter().chain(CONSOLE.files);
        let tags: BTreeSet<String> = files().map(Asset::etag).collect();
        assert_eq!(tags.len(), files().count());
    }
}
