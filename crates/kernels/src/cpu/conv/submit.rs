//! From a convolution's call to its kernels: packs weights, divides the work over threads, adds up partial gradients.

use super::config::{Algorithm, ConvCase, ConvConfig, Pass};
use super::direct::{self, Geometry, Weight};
use super::epilogue::Epilogue;
use super::scheme::{Scheme, Tile2Kernel3, Tile2Kernel5, Tile4Kernel3};
use super::source::{Content, Image, Source};
use super::winograd::{self, Shape};
use crate::cpu::Cpu;
use crate::cpu::submit::Shared;
use paceline_base::Result;
use paceline_base::kernel::BufferId;
use paceline_base::op::Activation;
use paceline_base::region::split_range;
use paceline_base::window::{ConvDims, PoolDims};
use std::marker::PhantomData;
use std::ptr::{null, null_mut};
use std::sync::Arc;

fn input(d: &ConvDims) -> Image {
    Image { height: d.height, width: d.width, channels: d.channels }
}

fn output(d: &ConvDims) -> Image {
    Image { height: d.out_height, width: d.out_width, channels: d.out_channels }
}

fn weight(d: &ConvDims) -> Weight {
    Weight { channels: d.channels / d.groups, kernel: (d.kernel[0], d.kernel[1]) }
}

/// Calls a method for the scheme of an algorithm.
macro_rules! with_scheme {
    ($algorithm:expr, $self:ident.$method:ident($($arg:expr),*)) => {
        match $algorithm {
            Algorithm::Winograd2 => $self.$method::<Tile2Kernel3>($($arg),*),
            Algorithm::Winograd4 => $self.$method::<Tile4Kernel3>($($arg),*),
            Algorithm::Winograd5 => $self.$method::<Tile2Kernel5>($($arg),*),
            Algorithm::Direct => unreachable!("not a transform"),
        }
    };
}

impl Cpu {
    /// The config of a convolution; chosen by the tuning, or by what is likely.
    pub(in crate::cpu) fn conv_config(&mut self, case: &ConvCase) -> Result<Arc<ConvConfig>> {
        let (tuning, lanes, threads) = (&self.tuning, self.isa.lanes(), self.pool.threads());
        self.convs.config(case, || tuning.conv(case), lanes, threads)
    }

    /// The config of a convolution that is due. `prepare` made room before the first step: only a call that was never announced
    /// can fail here.
    fn prepared_conv(&mut self, case: &ConvCase) -> Arc<ConvConfig> {
        self.conv_config(case).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Scratch of the convolutions.
    fn conv_scratch(&self) -> *mut f32 {
        self.convs.scratch.as_ref().map_or(null_mut(), |s| s.as_ptr())
    }

    /// A gradient: as it is, or behind a pool.
    fn gradient(&self, d: &ConvDims, dy: BufferId, pooled: Option<(PoolDims, BufferId)>) -> Source {
        let dy = self.at(dy);
        let content = match pooled {
            None => Content::Plain(dy),
            Some((pool, codes)) => Content::Pooled { dy, codes: self.at(codes).cast::<u8>().cast_const(), pool },
        };
        Source { image: output(d), content }
    }

    pub(in crate::cpu) fn conv_forward(
        &mut self,
        d: &ConvDims,
        bias: bool,
        activation: Option<Activation>,
        pool: Option<PoolDims>,
        codes: bool,
        a: &[BufferId],
    ) {
        let relu = activation == Some(Activation::Relu);
        assert!(pool.is_none() || relu || activation.is_none(), "a pool behind {activation:?} in one kernel");
        let case = ConvCase { pass: Pass::Forward, dims: *d, pool };
        let epilogue = Epilogue {
            bias: if bias { self.at(a[3]) } else { null() },
            relu,
            y: self.at(a[2]),
            saved: null(),
            pool: pool.map(|p| {
                let to = if codes { self.at(a[3 + usize::from(bias)]).cast::<u8>() } else { null_mut() };
                (p, to)
            }),
        };
        let source = Source { image: input(d), content: Content::Plain(self.at(a[0])) };
        let shape = Shape {
            samples: d.samples,
            input: input(d),
            output: output(d),
            pad: [d.pad[0] as isize, d.pad[1] as isize],
        };
        self.convolve(&case, shape, source, epilogue, self.at(a[1]));
        if let Some(f) = activation.filter(|_| !relu) {
            self.activate(f, d.output_len(), &[a[2], a[2]]);
        }
    }

    pub(in crate::cpu) fn conv_backward_data(
        &mut self,
        d: &ConvDims,
        through: Option<Activation>,
        pooled: Option<PoolDims>,
        a: &[BufferId],
    ) {
        let relu = through == Some(Activation::Relu);
        let saved = through.map(|_| a[3 + usize::from(pooled.is_some())]);
        let case = ConvCase { pass: Pass::Data, dims: *d, pool: pooled };
        let epilogue = Epilogue {
            bias: null(),
            relu: false,
            y: self.at(a[2]),
            saved: saved.filter(|_| relu).map_or(null(), |id| self.at(id).cast_const()),
            pool: None,
        };
        let source = self.gradient(d, a[0], pooled.map(|p| (p, a[3])));
        let turned = |axis: usize| (d.kernel[axis] as isize - 1) - d.pad[axis] as isize;
        let shape = Shape { samples: d.samples, input: output(d), output: input(d), pad: [turned(0), turned(1)] };
        self.convolve(&case, shape, source, epilogue, self.at(a[1]));
        if let (Some(f), Some(saved)) = (through.filter(|_| !relu), saved) {
            self.activate_backward(f, d.input_len(), &[a[2], saved, a[2]]);
        }
    }

    /// The output, or the gradient of the input.
    fn convolve(&mut self, case: &ConvCase, shape: Shape, source: Source, epilogue: Epilogue, w: *const f32) {
        if shape.samples == 0 || shape.output.len() == 0 {
            return;
        }
        let config = self.prepared_conv(case);
        match &config.geometry {
            Some(geometry) => self.convolve_directly(case, &config, geometry, shape, source, epilogue, w),
            None => with_scheme!(config.algorithm, self.convolve_by_tiles(case, &config, shape, source, epilogue, w)),
        }
    }

    #[allow(clippy::too_many_arguments)] // the parts of one problem
    fn convolve_directly(
        &mut self,
        case: &ConvCase,
        config: &ConvConfig,
        geometry: &Geometry,
        shape: Shape,
        source: Source,
        epilogue: Epilogue,
        w: *const f32,
    ) {
        let (isa, scratch) = (self.isa, Shared(self.conv_scratch()));
        let turned = case.pass == Pass::Data;
        // SAFETY: the contract was checked; scratch has room for the packed weights.
        unsafe { isa.run(direct::Pack { geometry, w, weight: weight(&case.dims), turned, to: scratch.get() }) };
        let own = config.own;
        for phase in 0..geometry.phases.len() {
            let strips = geometry.strips(phase, shape.samples);
            let whole = Shared(direct::Strips {
                geometry,
                phase,
                source,
                packed: scratch.get(),
                samples: shape.samples,
                output: shape.output,
                epilogue,
                strips: (0, 0),
                scratch: null_mut(),
            });
            self.divide(self.conv_worth(&case.dims), strips, |thread, first, end| {
                let mut part = whole.get();
                part.strips = (first, end);
                part.scratch = scratch.get().wrapping_add(config.shared + thread * own);
                // SAFETY: the contract was checked; parts have their own strips and scratch.
                unsafe { isa.run(part) }
            });
        }
    }

    fn convolve_by_tiles<C: Scheme + Sync>(
        &mut self,
        case: &ConvCase,
        config: &ConvConfig,
        shape: Shape,
        source: Source,
        epilogue: Epilogue,
        w: *const f32,
    ) {
        let (isa, scratch) = (self.isa, Shared(self.conv_scratch()));
        let worth = self.conv_worth(&case.dims);
        let outputs = shape.output.channels;
        let pack = Shared(winograd::Pack::<C> {
            w,
            channels: case.dims.channels,
            terms: shape.input.channels,
            outputs,
            turned: case.pass == Pass::Data,
            u: scratch.get(),
            vectors: (0, 0),
            scheme: PhantomData,
        });
        self.divide(worth, outputs.div_ceil(isa.lanes()), |_, first, end| {
            let mut part = pack.get();
            part.vectors = (first, end);
            // SAFETY: the contract was checked; parts have their own outputs.
            unsafe { isa.run(part) }
        });
        let whole = Shared(winograd::Forward::<C> {
            shape,
            source,
            u: scratch.get(),
            epilogue,
            zeros: case.pass == Pass::Forward,
            block: config.block,
            tiles: (0, 0),
            scratch: null_mut(),
            scheme: PhantomData,
        });
        self.divide(worth, shape.tiles::<C>(), |thread, first, end| {
            let mut part = whole.get();
            part.tiles = (first, end);
            part.scratch = scratch.get().wrapping_add(config.shared + thread * config.own);
            // SAFETY: the contract was checked; parts have their own tiles and scratch.
            unsafe { isa.run(part) }
        });
    }

    pub(in crate::cpu) fn conv_backward_weights(
        &mut self,
        d: &ConvDims,
        bias: bool,
        pooled: Option<PoolDims>,
        a: &[BufferId],
    ) {
        let case = ConvCase { pass: Pass::Weights, dims: *d, pool: pooled };
        let x = Source { image: input(d), content: Content::Plain(self.at(a[1])) };
        let dy = self.gradient(d, a[0], pooled.map(|p| (p, a[3 + usize::from(bias)])));
        let (dw, db) = (self.at(a[2]), if bias { self.at(a[3]) } else { null_mut() });
        if d.samples == 0 || output(d).len() == 0 {
            // SAFETY: the contract was checked.
            unsafe {
                std::ptr::write_bytes(dw, 0, d.weight_len());
                if bias {
                    std::ptr::write_bytes(db, 0, d.out_channels);
                }
            }
            return;
        }
        let config = self.prepared_conv(&case);
        match &config.geometry {
            Some(geometry) => self.weights_directly(&case, &config, geometry, x, dy, dw, db),
            None => with_scheme!(config.algorithm, self.weights_by_tiles(&case, &config, x, dy, dw, db)),
        }
    }

    #[allow(clippy::too_many_arguments)] // the parts of one problem
    fn weights_directly(
        &mut self,
        case: &ConvCase,
        config: &ConvConfig,
        geometry: &Geometry,
        x: Source,
        dy: Source,
        dw: *mut f32,
        db: *mut f32,
    ) {
        let d = &case.dims;
        let isa = self.isa;
        let lanes = isa.lanes();
        let scratch = Shared(self.conv_scratch());
        let bias_at = align(geometry.gradient_len(lanes));
        let strips = geometry.strips(0, d.samples);
        let sources = Shared((x, dy));
        let vectors = d.groups * (d.out_channels / d.groups).div_ceil(lanes);
        self.each_sum(case, config, strips, vectors, |thread, sum, strips, vectors| {
            let own = scratch.get().wrapping_add(sum * config.sum);
            let part = direct::Weights {
                geometry,
                rows: &config.rows,
                samples: d.samples,
                x: sources.get().0,
                dy: sources.get().1,
                dw: own,
                db: own.wrapping_add(bias_at),
                strips,
                vectors,
                scratch: scratch.get().wrapping_add(config.shared + thread * config.own),
            };
            // SAFETY: the contract was checked; parts have their own vectors of a sum, and threads their own scratch.
            unsafe { isa.run(part) }
        });
        let to = Shared(dw);
        self.divide(self.conv_worth(d), direct::Gather::pieces(geometry), |_, first, end| {
            let part = direct::Gather {
                geometry,
                weight: weight(d),
                from: scratch.get(),
                sums: config.sums,
                stride: config.sum,
                dw: to.get(),
                range: (first, end),
            };
            // SAFETY: all sums are there; parts have their own terms.
            unsafe { isa.run(part) }
        });
        // SAFETY: all sums are there.
        unsafe { add_biases(scratch.get().wrapping_add(bias_at), config, db, d.out_channels) };
    }

    fn weights_by_tiles<C: Scheme + Sync>(
        &mut self,
        case: &ConvCase,
        config: &ConvConfig,
        x: Source,
        dy: Source,
        dw: *mut f32,
        db: *mut f32,
    ) {
        let d = &case.dims;
        let isa = self.isa;
        let lanes = isa.lanes();
        let scratch = Shared(self.conv_scratch());
        let shape = Shape {
            samples: d.samples,
            input: input(d),
            output: output(d),
            pad: [d.pad[0] as isize, d.pad[1] as isize],
        };
        let tiles = shape.tiles::<C>();
        let bias_at = align(winograd::weights_len::<C>(d.channels, d.out_channels, lanes));
        let whole = Shared(winograd::Weights::<C> {
            shape,
            x,
            dy,
            outputs: (0, d.out_channels),
            du: null_mut(),
            db: null_mut(),
            block: config.block,
            tiles: (0, tiles),
            scratch: null_mut(),
            scheme: PhantomData,
        });
        let vectors = d.out_channels.div_ceil(lanes);
        self.each_sum(case, config, tiles, vectors, |thread, sum, tiles, (first, end)| {
            let mut part = whole.get();
            part.tiles = tiles;
            part.outputs = (first * lanes, (end * lanes).min(d.out_channels) - first * lanes);
            part.du = scratch.get().wrapping_add(sum * config.sum);
            part.db = part.du.wrapping_add(bias_at);
            part.scratch = scratch.get().wrapping_add(config.shared + thread * config.own);
            // SAFETY: the contract was checked; parts have their own outputs of a sum, and threads their own scratch.
            unsafe { isa.run(part) }
        });
        let gather = Shared(winograd::Gather::<C> {
            du: scratch.get(),
            sums: config.sums,
            stride: config.sum,
            channels: d.channels,
            outputs: d.out_channels,
            dw,
            range: (0, 0),
            scheme: PhantomData,
        });
        self.divide(self.conv_worth(d), d.channels, |_, first, end| {
            let mut part = gather.get();
            part.range = (first, end);
            // SAFETY: all sums are there; parts have their own channels.
            unsafe { isa.run(part) }
        });
        // SAFETY: all sums are there.
        unsafe { add_biases(scratch.get().wrapping_add(bias_at), config, db, d.out_channels) };
    }

    /// Computes the partial sums of a weight gradient: calls `part(thread, sum, its units, vectors of outputs)`. The units (strips or tiles)
    /// are cut into sums by the config, whatever the number of threads. Threads take whole sums as far as that goes evenly; where a border
    /// between threads falls into a sum, they divide its vectors, which changes no bit.
    fn each_sum(
        &mut self,
        case: &ConvCase,
        config: &ConvConfig,
        units: usize,
        vectors: usize,
        part: impl Fn(usize, usize, (usize, usize), (usize, usize)) + Sync,
    ) {
        let sums = config.sums;
        self.divide(self.conv_worth(&case.dims), sums * vectors, |thread, first, end| {
            for sum in first / vectors..end.div_ceil(vectors) {
                let own = |at: usize| at.saturating_sub(sum * vectors).min(vectors);
                let range = split_range(units, sums, sum);
                part(thread, sum, (range.start, range.end), (own(first), own(end)));
            }
        });
    }

    fn conv_worth(&self, d: &ConvDims) -> bool {
        d.flops() >= self.tuning.parallel_flops as f64
    }
}

fn align(len: usize) -> usize {
    len.next_multiple_of(64)
}

/// Adds up the partial sums of a bias' gradient, if a bias wants them: `from` is the first.
///
/// # Safety
/// All pointers valid for `count` elements; `db` may be null.
unsafe fn add_biases(from: *const f32, config: &ConvConfig, db: *mut f32, count: usize) {
    if db.is_null() {
        return;
    }
    for o in 0..count {
        // SAFETY: the caller's promise.
        unsafe {
            let mut total = 0.0;
            for sum in 0..config.sums {
                total += *from.add(sum * config.sum + o);
            }
            *db.add(o) = total;
        }
    }
}
