//! Line charts as inline SVG: axes, grid, curves, and the data that the page's script shows under the pointer.
//!
//! Colours come from the page's style sheet by run number, so that they follow the light or dark scheme. The legend is
//! one for all charts and stands in the page.

use std::fmt::Write;

use maud::{Markup, Render, html};

use super::axis::{Axis, Scale};

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 310.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;

/// Runs beyond this many share colours.
pub(crate) const COLOURS: usize = 10;
/// Curves with so few points also show the points, unless there are too many curves to tell points apart.
const MARKED: usize = 30;
/// More curves than this are too many to tell points apart.
const CROWD: usize = 8;
/// Curves with more points than this are drawn finer: they are noisy.
const NOISY: usize = 100;

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stroke {
    Solid,
    Dashed,
    Dotted,
    /// No line: a cloud of points.
    Points,
}

/// A run's values in a chart.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    /// Number of the run, which gives the colour.
    pub run: usize,
    /// Name of the run.
    pub name: String,
    /// What it shows: "training", "validation".
    pub what: &'static str,
    pub stroke: Stroke,
    /// Not shown under the pointer: fits, and single points among many.
    pub silent: bool,
    pub points: Vec<(f64, f64)>,
}

/// Curves over one pair of axes.
pub(crate) struct Chart {
    pub title: &'static str,
    pub x_title: String,
    pub x_scale: Scale,
    pub y_scale: Scale,
    /// The y axis is a share, shown in percent and kept within 0 and 1.
    pub percent: bool,
    /// Room at both ends of the x axis, as a share of its length.
    pub room: f64,
    /// What a value on the x axis is called under the pointer.
    pub x_name: fn(f64) -> String,
    /// What a value on the y axis is called under the pointer.
    pub y_name: fn(f64) -> String,
    pub curves: Vec<Curve>,
}

impl Render for Chart {
    /// The chart as a `<figure>`.
    fn render(&self) -> Markup {
        html! {
            figure.chart.card {
                figcaption { (self.title) }
                @match self.axes() {
                    Some((x_axis, y_axis)) => (self.plot(&x_axis, &y_axis)),
                    None => p.empty { "nothing was recorded for this" },
                }
            }
        }
    }
}

impl Chart {
    /// The axes; none where there is nothing to draw.
    fn axes(&self) -> Option<(Axis, Axis)> {
        let drawn = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
        let points = || self.curves.iter().flat_map(|curve| &curve.points).filter(|point| drawn(point));
        let free = (f64::NEG_INFINITY, f64::INFINITY);
        let limits = if self.percent { (0.0, 1.0) } else { free };
        let (first, last) =
            points().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), p| (low.min(p.0), high.max(p.0)));
        let room = self.room * (last - first);
        let ends = [first - room, last + room];
        let x_axis = Axis::new(points().map(|p| p.0).chain(ends), self.x_scale, 6, free);
        let y_axis = Axis::new(points().map(|p| p.1), self.y_scale, 5, limits);
        x_axis.zip(y_axis)
    }

    fn plot(&self, x_axis: &Axis, y_axis: &Axis) -> Markup {
        let at = |&(x, y): &(f64, f64)| {
            let x = LEFT + x_axis.position(x)? * (WIDTH - LEFT - RIGHT);
            let y = HEIGHT - BOTTOM - y_axis.position(y)? * (HEIGHT - TOP - BOTTOM);
            Some((x, y))
        };
        html! {
            div.plot {
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(self.title) data-points=(self.pointer_data(&at)) {
                    (self.draw_axes(x_axis, y_axis))
                    @for curve in &self.curves { (draw_curve(curve, self.curves.len() > CROWD, &at)) }
                    line.cursor y1=(TOP) y2=(HEIGHT - BOTTOM) {}
                    @for curve in self.curves.iter().filter(|curve| !curve.silent) {
                        circle.dot.{ "r" (curve.run % COLOURS) } r="4" {}
                    }
                }
                div.tip hidden {}
            }
        }
    }

    fn draw_axes(&self, x_axis: &Axis, y_axis: &Axis) -> Markup {
        let bottom = HEIGHT - BOTTOM;
        let row = |tick: f64| tenth(bottom - y_axis.position(tick).unwrap_or(0.0) * (bottom - TOP));
        let column = |tick: f64| tenth(LEFT + x_axis.position(tick).unwrap_or(0.0) * (WIDTH - LEFT - RIGHT));
        html! {
            g.axis {
                @for &tick in &y_axis.ticks {
                    @let y = row(tick);
                    line x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y) y2=(y) {}
                    text x=(LEFT - 8.0) y=(y) dy=".35em" text-anchor="end" {
                        @if self.percent { (y_axis.percent(tick)) } @else { (y_axis.label(tick)) }
                    }
                }
                @for &tick in &x_axis.ticks {
                    @let x = column(tick);
                    line.minor x1=(x) x2=(x) y1=(TOP) y2=(bottom) {}
                    text x=(x) y=(bottom + 18.0) text-anchor="middle" { (x_axis.label(tick)) }
                }
                line.base x1=(LEFT) x2=(WIDTH - RIGHT) y1=(bottom) y2=(bottom) {}
                text.name x=((LEFT + WIDTH - RIGHT) / 2.0) y=(HEIGHT - 6.0) text-anchor="middle" { (self.x_title) }
            }
        }
    }

    /// For each curve its places in the drawing with their texts; the script only looks for the nearest.
    fn pointer_data(&self, at: &impl Fn(&(f64, f64)) -> Option<(f64, f64)>) -> String {
        let round = |v: f64| (v * 10.0).round() / 10.0;
        let curves: Vec<serde_json::Value> = self
            .curves
            .iter()
            .filter(|curve| !curve.silent)
            .map(|curve| {
                let points: Vec<serde_json::Value> = curve
                    .points
                    .iter()
                    .filter_map(|point| {
                        let (x, y) = at(point)?;
                        Some(serde_json::json!([round(x), round(y), (self.x_name)(point.0), (self.y_name)(point.1)]))
                    })
                    .collect();
                serde_json::json!({"run": curve.run, "name": curve.name, "what": curve.what, "points": points})
            })
            .collect();
        serde_json::Value::Array(curves).to_string()
    }
}

/// A coordinate: a tenth of a pixel is as much as can be seen.
fn tenth(value: f64) -> String {
    format!("{value:.1}")
}

/// A path that is broken where a value cannot be drawn, so that a gap shows as a gap.
fn draw_curve(curve: &Curve, crowd: bool, at: &impl Fn(&(f64, f64)) -> Option<(f64, f64)>) -> Markup {
    let mut path = String::new();
    let mut pen_down = false;
    let mut places = Vec::new();
    for point in &curve.points {
        match at(point) {
            Some((x, y)) => {
                write!(path, "{}{x:.1} {y:.1}", if pen_down { "L" } else { "M" }).unwrap();
                pen_down = true;
                places.push((x, y));
            }
            None => pen_down = false,
        }
    }
    if places.is_empty() {
        return html! {};
    }
    if curve.stroke == Stroke::Points {
        return draw_points(curve, &places);
    }
    let marked = !curve.silent && (places.len() == 1 || (places.len() <= MARKED && !crowd));
    let (dashed, dotted) = (curve.stroke == Stroke::Dashed, curve.stroke == Stroke::Dotted);
    html! {
        g.curve.{ "run-" (curve.run) }.{ "r" (curve.run % COLOURS) }.dashed[dashed].dotted[dotted].fine[places.len() > NOISY] {
            path d=(path) {}
            @if marked {
                @for &(x, y) in &places { circle cx=(tenth(x)) cy=(tenth(y)) r="2.4" {} }
            }
        }
    }
}

/// A cloud, spread a little to the sides so that equal x do not hide each other; the same for the same data.
fn draw_points(curve: &Curve, places: &[(f64, f64)]) -> Markup {
    // The golden ratio spreads any number of points evenly (Weyl).
    let aside = |i: usize| ((i as f64 * 0.618_034).fract() - 0.5) * 9.0;
    html! {
        g.cloud.{ "run-" (curve.run) }.{ "r" (curve.run % COLOURS) } {
            @for (i, &(x, y)) in places.iter().enumerate() {
                circle cx=(tenth(x + aside(i))) cy=(tenth(y)) r="2.2" {}
            }
        }
    }
}
