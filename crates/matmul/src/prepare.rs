//! Before anything is made: whether the options make sense on every process, and whether all fits into memory.

use crate::factor::Factor;
use crate::{Blocks, Cost, Keeping, Layout, MatmulOptions, MatmulSetting as Setting, Placement, Product};
use paceline_base::text::bytes;
use paceline_base::{Error, Result};
use paceline_comm::World;
use paceline_system::machine;

/// Blocks in a row, at most: more are bookkeeping, not work.
const MOST_BLOCKS: usize = 500;

/// Options that make sense.
pub(crate) struct Checked {
    pub blocks: Blocks,
    pub factors: Vec<Factor>,
    pub local: usize,
    pub ranks: usize,
    /// The rank that is the first of this process.
    first: usize,
    pub placements: Vec<Placement>,
}

impl Checked {
    /// Looks at all options; files are opened.
    pub(crate) fn new(options: &MatmulOptions, world: &mut World) -> Result<Self> {
        let wrong = |words: String| Err(Error::user(words));
        let name = |setting| options.names.of(setting);
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let local = options.ranks.unwrap_or(if world.processes() > 1 { 1 } else { cores });
        paceline_system::threads::check_threads(name(Setting::Ranks), local, 1)?;
        // All processes must come to this, whatever is wrong with the options.
        let counts = world.gather(&(local as u64).to_le_bytes())?;
        let counts: Vec<usize> =
            counts.iter().map(|b| b[..].try_into().map_or(0, |b| u64::from_le_bytes(b) as usize)).collect();
        let ranks: usize = counts.iter().sum();
        if counts.contains(&0) {
            return wrong(format!("no ranks: give {} at least 1", name(Setting::Ranks)));
        }
        if ranks > 4096 {
            return wrong("more than 4096 ranks: give fewer".into());
        }
        if options.layouts.is_empty() {
            return wrong("no layout: give summa, diagonal or both".into());
        }
        if options.product != Product::Ab && options.b.is_some() {
            return wrong(format!(
                "only A·B has a second factor: leave {} out, or give {} ab",
                name(Setting::B),
                name(Setting::Product)
            ));
        }
        if options.product == Product::Trace && options.out.is_some() {
            return wrong(format!(
                "the trace is one number, and there is no product to write: leave {} out, or give {} aa",
                name(Setting::Out),
                name(Setting::Product)
            ));
        }
        let mut factors = Vec::new();
        for (matrix, path) in [(0, &options.a), (1, &options.b)] {
            factors.push(match path {
                Some(path) => Factor::open(path)?,
                None => Factor::Made { seed: options.seed, matrix },
            });
        }
        if options.product != Product::Ab {
            factors.truncate(1);
        }
        let sizes: Vec<usize> = factors.iter().filter_map(Factor::n).chain(options.n).collect();
        let Some(&n) = sizes.first() else {
            return wrong(format!(
                "the size is missing: give {}, or a matrix with {}",
                name(Setting::N),
                name(Setting::A)
            ));
        };
        if n == 0 {
            return wrong(format!("{} is 0: give at least 1", name(Setting::N)));
        }
        if let Some(other) = sizes.iter().find(|&&other| other != n) {
            return Err(Error::user(format!(
                "matrices of different sizes: {n} and {other}; both factors and {} must agree",
                name(Setting::N)
            )));
        }
        if n > 1_000_000 {
            return Err(Error::user(format!(
                "{} {n} is more than a million, whose square no cluster holds; give a smaller one",
                name(Setting::N)
            )));
        }
        let block = options.block.unwrap_or(1000).min(n);
        if block == 0 {
            return wrong(format!("{} is 0: give at least 1, better some hundreds", name(Setting::Block)));
        }
        let blocks = Blocks { n, block };
        if blocks.count() > MOST_BLOCKS {
            return Err(Error::user(format!(
                "{n} rows in blocks of {block} are {} blocks in a row; give {} {} or more",
                blocks.count(),
                name(Setting::Block),
                n.div_ceil(MOST_BLOCKS)
            )));
        }
        let placements = Layout::ALL.map(|layout| Placement::new(layout, options.product, blocks, ranks)).to_vec();
        let first = counts[..world.process()].iter().sum();
        Ok(Self { blocks, factors, local, ranks, first, placements })
    }

    /// What this process's ranks take, in the hungriest of the placements that are run.
    fn memory(&self, layouts: &[Layout], keeping: Keeping) -> u64 {
        let run = self.placements.iter().filter(|p| layouts.contains(&p.layout));
        let of = |p: &Placement| -> u64 {
            let cost = Cost::of(p, keeping);
            cost.ranks[self.first..self.first + self.local].iter().map(|b| b.memory_bytes).sum()
        };
        run.map(of).max().unwrap_or(0)
    }
}

/// Whether factors are stored, with the reasons; an error if they do not fit.
pub(crate) fn keeping(options: &MatmulOptions, checked: &Checked, world: &mut World) -> Result<(Keeping, Vec<String>)> {
    let host = &world.hosts()[world.process()];
    let neighbours = world.hosts().iter().filter(|other| *other == host).count() as u64;
    let free = machine::free_memory_bytes();
    let limit = options.memory.unwrap_or(if free == 0 { u64::MAX } else { free / 10 * 9 / neighbours });
    let [stored, fresh] = [Keeping::Stored, Keeping::Fresh].map(|k| checked.memory(&options.layouts, k));
    let fits = [stored <= limit, fresh <= limit];
    let all = world.gather(&[u8::from(fits[0]), u8::from(fits[1])])?;
    let everywhere = |i: usize| all.iter().all(|f| f.get(i) == Some(&1));
    let name = |setting| options.names.of(setting);
    let from =
        if options.memory.is_some() { format!("{} allows", name(Setting::Memory)) } else { "are free".to_string() };
    let does_not_fit = |words: String, more: String| {
        Err(Error::user(format!("{words} {} in each process, and {} {from}; {more}", bytes(stored), bytes(limit))))
    };
    let made = if matches!(checked.factors[0], Factor::Made { .. }) { "made" } else { "read" };
    match options.keeping {
        Some(Keeping::Stored) | None if everywhere(0) => Ok((
            Keeping::Stored,
            vec![format!(
                "factors are stored: each block is {made} once by its holder, and sent to those who need it ({} a process)",
                bytes(stored)
            )],
        )),
        Some(Keeping::Fresh) | None if everywhere(1) => Ok((
            Keeping::Fresh,
            vec![format!(
                "factors are not stored: whoever needs a block {} it, in every step anew, and nothing moves ({} a process{})",
                if made == "made" { "makes" } else { "reads" },
                bytes(fresh),
                if everywhere(0) { String::new() } else { format!("; stored they would take {}", bytes(stored)) }
            )],
        )),
        Some(Keeping::Stored) => does_not_fit(
            "stored factors and the product take".into(),
            format!(
                "{} fresh takes {}; or use more hosts, or a smaller {}",
                name(Setting::Factors),
                bytes(fresh),
                name(Setting::N)
            ),
        ),
        _ => Err(Error::user(format!(
            "the product takes {} in each process even if factors are not stored, and {} {from}; use more hosts, smaller blocks or a \
             smaller {}{}",
            bytes(fresh),
            bytes(limit),
            name(Setting::N),
            if checked.blocks.n > 0 && options.product == Product::Aa {
                format!(" (for its trace alone: {} trace)", name(Setting::Product))
            } else {
                String::new()
            }
        ))),
    }
}
