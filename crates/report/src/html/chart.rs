//! Line charts as inline SVG: axes, grid, curves, and the data that the page's script shows under the pointer.
//!
//! Colours come from the page's style sheet by run number, so that they follow the light or dark scheme. The legend is
//! one for all charts and stands in the page.

use std::fmt::Write;

use super::axis::{Axis, Scale};
use super::escape::Esc;

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
/// Too many.
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

/// One curve.
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

/// A chart.
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

impl Chart {
    /// The chart as a `<figure>`.
    pub(crate) fn svg(&self) -> String {
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
        let mut out = format!("<figure class=\"chart card\"><figcaption>{}</figcaption>", Esc(self.title));
        let (Some(x_axis), Some(y_axis)) = (x_axis, y_axis) else {
            out.push_str("<p class=\"empty\">nothing was recorded for this</p></figure>");
            return out;
        };
        let at = |&(x, y): &(f64, f64)| {
            let x = LEFT + x_axis.position(x)? * (WIDTH - LEFT - RIGHT);
            let y = HEIGHT - BOTTOM - y_axis.position(y)? * (HEIGHT - TOP - BOTTOM);
            Some((x, y))
        };
        let data = self.pointer_data(&at);
        write!(
            out,
            "<div class=\"plot\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\" data-points=\"{}\">",
            Esc(self.title),
            Esc(data)
        )
        .unwrap();
        self.draw_axes(&mut out, &x_axis, &y_axis);
        for curve in &self.curves {
            draw_curve(&mut out, curve, self.curves.len() > CROWD, &at);
        }
        write!(out, "<line class=\"cursor\" y1=\"{TOP}\" y2=\"{}\"/>", HEIGHT - BOTTOM).unwrap();
        for curve in self.curves.iter().filter(|curve| !curve.silent) {
            write!(out, "<circle class=\"dot r{}\" r=\"4\"/>", curve.run % COLOURS).unwrap();
        }
        out.push_str("</svg><div class=\"tip\" hidden></div></div></figure>");
        out
    }

    fn draw_axes(&self, out: &mut String, x_axis: &Axis, y_axis: &Axis) {
        let bottom = HEIGHT - BOTTOM;
        out.push_str("<g class=\"axis\">");
        for &tick in &y_axis.ticks {
            let y = bottom - y_axis.position(tick).unwrap_or(0.0) * (bottom - TOP);
            let label = if self.percent { y_axis.percent(tick) } else { y_axis.label(tick) };
            write!(
                out,
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{}\" y=\"{y:.1}\" dy=\".35em\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                Esc(label)
            )
            .unwrap();
        }
        for &tick in &x_axis.ticks {
            let x = LEFT + x_axis.position(tick).unwrap_or(0.0) * (WIDTH - LEFT - RIGHT);
            write!(
                out,
                "<line class=\"minor\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/><text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 18.0,
                Esc(x_axis.label(tick))
            )
            .unwrap();
        }
        write!(
            out,
            "<line class=\"base\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{bottom}\" y2=\"{bottom}\"/><text class=\"name\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text></g>",
            WIDTH - RIGHT,
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 6.0,
            Esc(&self.x_title)
        )
        .unwrap();
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

/// A path that is broken where a value cannot be drawn, so that a gap shows as a gap.
fn draw_curve(out: &mut String, curve: &Curve, crowd: bool, at: &impl Fn(&(f64, f64)) -> Option<(f64, f64)>) {
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
        return;
    }
    if curve.stroke == Stroke::Points {
        draw_points(out, curve, &places);
        return;
    }
    let dashed = match curve.stroke {
        Stroke::Dashed => " dashed",
        Stroke::Dotted => " dotted",
        Stroke::Solid | Stroke::Points => "",
    };
    let fine = if places.len() > NOISY { " fine" } else { "" };
    write!(out, "<g class=\"curve run-{} r{}{dashed}{fine}\"><path d=\"{path}\"/>", curve.run, curve.run % COLOURS)
        .unwrap();
    if !curve.silent && (places.len() == 1 || (places.len() <= MARKED && !crowd)) {
        for (x, y) in places {
            write!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.4\"/>").unwrap();
        }
    }
    out.push_str("</g>");
}

/// A cloud, spread a little to the sides so that equal x do not hide each other; the same for the same data.
fn draw_points(out: &mut String, curve: &Curve, places: &[(f64, f64)]) {
    write!(out, "<g class=\"cloud run-{} r{}\">", curve.run, curve.run % COLOURS).unwrap();
    for (i, (x, y)) in places.iter().enumerate() {
        // The golden ratio spreads any number of points evenly (Weyl).
        let aside = ((i as f64 * 0.618_034).fract() - 0.5) * 9.0;
        write!(out, "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"2.2\"/>", x + aside).unwrap();
    }
    out.push_str("</g>");
}
