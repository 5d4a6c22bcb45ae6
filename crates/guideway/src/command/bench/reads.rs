//! What the memory alone takes: the reads of a packet that each tell where the next one goes, in memory of the same size.

use guideway_xdp::harness::cpu_time;

/// A cache line.
type Line = [u64; 8];

/// Reads that follow from one another, each of one of so many lines, at random.
pub(super) struct Reads {
    near: Vec<Vec<Line>>,
    far: Vec<Vec<Line>>,
    /// Nanoseconds of each round, of the reads and of the same without a miss.
    pub(super) rounds: Vec<(f64, f64)>,
}

const TURNS: u32 = 100_000;

impl Reads {
    pub(super) fn new(lines: &[u32]) -> Reads {
        // Filled with something: pages of zeros would all be one page.
        let region = |lines: u32| vec![[1; 8]; lines as usize];
        Reads {
            near: lines.iter().map(|_| region(1)).collect(),
            far: lines.iter().map(|lines| region(*lines)).collect(),
            rounds: Vec::new(),
        }
    }

    pub(super) fn time(&mut self) {
        let round = (walk(&self.far), walk(&self.near));
        self.rounds.push(round);
    }
}

/// Nanoseconds that it takes to read a line of each region, one after the other.
fn walk(regions: &[Vec<Line>]) -> f64 {
    let start = cpu_time();
    let mut random: u64 = 1;
    for _ in 0..TURNS {
        for lines in regions {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let line = ((random >> 32) * lines.len() as u64) >> 32;
            // Each line holds a one, so that the next place depends on it and is random all the same.
            random = random.wrapping_mul(lines.get(line as usize).map_or(1, |[first, ..]| *first));
        }
    }
    std::hint::black_box(random);
    cpu_time().saturating_sub(start).as_nanos() as f64 / f64::from(TURNS)
}
