//! The trade as a picture: mean waits across, waits of large jobs upwards, a mark for every setting.

use super::{
    axes::{Frame, Scale},
    charts::{Chart, colour, wait_labels},
    scene::{Anchor, Colour, INK, PALE},
};
use crate::sweep::{Point, Sweep};

/// Half of a mark's side, in pixels.
const MARK: f64 = 4.0;

/// The picture of a sweep; nothing without large jobs.
#[must_use]
pub fn pareto(sweep: &Sweep) -> Option<Chart> {
    let numbered = (1..).zip(&sweep.points);
    let points: Vec<(usize, &Point, f64, f64)> = numbered.filter_map(placed).collect();
    let (across, up) = (range(points.iter().map(|of| of.2))?, range(points.iter().map(|of| of.3))?);
    let workload = &sweep.inputs.workload;
    let title = format!("Waits of all and of large jobs: {} jobs, load {:.2}", workload.jobs, workload.load);
    let meaning = format!(
        "Up: 99 of 100 jobs of {} GPUs and more wait no longer; the line joins the Pareto front; ringed: advised",
        sweep.large
    );
    let mut frame = Frame::new(&title, &meaning, Scale::Log(up.0, up.1), &wait_labels(up.0, up.1));
    let x = |value: f64| (value / across.0).ln() / (across.1 / across.0).ln();
    for (value, label) in wait_labels(across.0, across.1) {
        frame.below(x(value), label);
    }
    frame.meaning("mean wait of all jobs");
    let mut front: Vec<(f64, f64)> =
        points.iter().filter(|of| of.1.on_front).map(|of| (of.2, of.3)).collect();
    front.sort_by(|one, two| one.0.total_cmp(&two.0).then(two.1.total_cmp(&one.1)));
    let line = front.iter().map(|(mean, large)| (frame.x(x(*mean)), frame.y(*large))).collect();
    frame.scene.line(line, PALE, 1.0);
    let advised = sweep.advised();
    for (number, point, mean, large) in &points {
        let (left, top) = (frame.x(x(*mean)), frame.y(*large));
        if advised.is_some_and(|one| std::ptr::eq(one, *point)) {
            let side = MARK * 2.0 + 6.0;
            frame.scene.rect(left - side / 2.0, top - side / 2.0, side, side, INK);
        }
        let colour: Colour =
            if point.on_front || point.policy != "ours" { colour(point.policy) } else { PALE };
        frame.scene.rect(left - MARK, top - MARK, MARK * 2.0, MARK * 2.0, colour);
        let label = if point.policy == "ours" { number.to_string() } else { point.policy.to_owned() };
        frame.scene.text(left + MARK + 4.0, top - 8.0, label, Anchor::Left, INK);
    }
    frame.legend(&[
        ("a setting (its place in the table)".to_owned(), colour("ours")),
        ("easy".to_owned(), colour("easy")),
        ("fifo".to_owned(), colour("fifo")),
    ]);
    Some(Chart { name: "pareto", scene: frame.scene })
}

/// Where a point lies: waits of less than a second are a second.
fn placed((number, point): (usize, &Point)) -> Option<(usize, &Point, f64, f64)> {
    let large = point.large_p99.filter(|wait| wait.is_finite())?;
    point.mean_wait.is_finite().then_some((number, point, point.mean_wait.max(1.0), large.max(1.0)))
}

/// From a little below the least to a little above the most.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (least, most) =
        values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    least.is_finite().then_some((least / 1.3, most * 1.3))
}
