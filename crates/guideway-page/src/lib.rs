//! The laboratory page, embedded: its files with their types, and the headers that a server sends with them.
//!
//! [`find`] is all that an HTTP server needs in order to mount the page under a path of its own; the page's links are relative.
//! [`serve`] is a server of nothing but the page, for those who have no other.
//!
//! ```
//! let page = guideway_page::find("").expect("the page itself");
//! assert_eq!(page.content_type, "text/html; charset=utf-8");
//! assert!(guideway_page::find("js/main.js").is_some() && guideway_page::find("../Cargo.toml").is_none());
//! ```
#![forbid(unsafe_code)]

mod files;
pub mod serve;

/// A file of the page.
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

/// The file at `path` below the page, without a slash at its beginning; the page itself at the empty path.
pub fn find(path: &str) -> Option<&'static Asset> {
    let path = if path.is_empty() { "index.html" } else { path };
    files::ALL.iter().find(|asset| asset.path == path)
}

/// All files of the page.
pub fn all() -> &'static [Asset] {
    files::ALL
}

/// What the page may do: run its own scripts and its own WebAssembly, and nothing from elsewhere. The page says the same of itself, but
/// for who may frame it, which only a header can say.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
     img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// Headers to send with every file of the page, besides its type and its tag.
pub const HEADERS: [(&str, &str); 4] = [
    ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    // The tag decides; a page of an older build must not outlive it.
    ("Cache-Control", "no-cache"),
];

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
    fn every_file_of_the_page_is_embedded_and_no_other() {
        let mut there = BTreeSet::new();
        listed(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/lab"), "", &mut there);
        // It tells what the module was built from, which concerns the build alone.
        assert!(there.remove("guideway.wasm.json"));
        let embedded: BTreeSet<String> = all().iter().map(|asset| asset.path.to_owned()).collect();
        assert_eq!(embedded, there);
    }

    #[test]
    fn files_have_the_type_that_browsers_ask_for() {
        let type_of = |path| find(path).unwrap().content_type;
        assert_eq!(type_of("guideway.wasm"), "application/wasm");
        assert_eq!(type_of("js/main.js"), "text/javascript; charset=utf-8");
        assert_eq!(type_of("css/page.css"), "text/css; charset=utf-8");
        assert_eq!(type_of("icon.svg"), "image/svg+xml");
        assert!(find("guideway.wasm").unwrap().bytes.starts_with(b"\0asm"));
    }

    #[test]
    fn the_header_allows_what_the_page_allows_itself() {
        let page = std::str::from_utf8(find("").unwrap().bytes).unwrap();
        let (own, _) = CONTENT_SECURITY_POLICY.split_once("; frame-ancestors").unwrap();
        assert!(page.contains(&format!("content=\"{own}\"")), "{own}");
    }

    #[test]
    fn tags_differ_from_file_to_file() {
        let tags: BTreeSet<String> = all().iter().map(Asset::etag).collect();
        assert_eq!(tags.len(), all().len());
    }
}
