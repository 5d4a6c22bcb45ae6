//! Where a table size of `auto` stands at the edge of another one.
//!
//! A fleet's tables have to be equal, so the size follows from the number of backends alone: were it to depend on the
//! way there (as with hysteresis), a balancer that was started anew would hash otherwise than its neighbours, and a flow
//! that a router sends to another of them would break. The price is that a service at an edge changes its size each time
//! that a backend comes or goes there; its operator is told, and can set the size.

use std::fmt;

use guideway_hash::TableSize;

use super::Service;

/// One backend more or fewer changes the size of a service's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeBorder {
    /// Backends of the service.
    pub backends: usize,
    /// Slots of its table.
    pub size: TableSize,
    /// Backends at the other side: one more, or one fewer.
    pub then: usize,
    /// Slots with so many.
    pub size_then: TableSize,
}

impl Service {
    /// The edge that it stands at, if it does: that of a larger table before that of a smaller one.
    pub fn size_border(&self) -> Option<SizeBorder> {
        let (backends, size) = (self.backends.len(), self.table_size);
        let neighbours = [backends.checked_add(1), backends.checked_sub(1)].into_iter().flatten();
        let across = |then| SizeBorder { backends, size, then, size_then: TableSize::auto(then) };
        let mut borders = neighbours.map(across).filter(|border| border.size_then != size);
        borders.next().filter(|_| self.table_size_auto)
    }
}

impl fmt::Display for SizeBorder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { backends, size, then, size_then } = self;
        let larger = size.max(size_then);
        write!(
            out,
            "the table of \"auto\" has {size} slots with {backends} backends and {size_then} with {then}, and another \
             size moves new flows between all of them; `table_size = {larger}` is good for both"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Source, parse};

    fn border(backends: usize, settings: &str) -> Option<String> {
        let list: Vec<_> = (1..=backends)
            .map(|n| format!("{{ name = \"be{n}\", address = \"10.0.{}.{}\" }}", n / 200, n % 200 + 1))
            .collect();
        let text = format!(
            "[underlay]\nsource_v4 = \"10.9.0.1\"\n[[service]]\nname = \"web\"\nvip = \"192.0.2.10\"\nport = 80\n\
             protocol = \"tcp\"\n{settings}\nbackend = [{}]\n",
            list.join(", ")
        );
        let config = parse(&Source::new("guideway.toml", text)).unwrap();
        config.services[0].size_border().map(|border| border.to_string())
    }

    #[test]
    fn a_service_at_an_edge_of_auto_is_told_with_the_remedy() {
        let told = "the table of \"auto\" has 509 slots with 5 backends and 1021 with 6, and another size moves new flows \
                    between all of them; `table_size = 1021` is good for both";
        assert_eq!(border(5, ""), Some(told.to_owned()));
        let at: Vec<usize> = (0..50).filter(|&backends| border(backends, "").is_some()).collect();
        assert_eq!(at, [2, 3, 5, 6, 10, 11, 20, 21, 40, 41], "where 100 slots a backend stop fitting");
        assert!(border(6, "").unwrap().contains("1021 slots with 6 backends and 509 with 5"));
        assert_eq!(border(5, "table_size = 509"), None, "a size that is set stays");
    }
}
