//! Rounds, medians, and how they are shown.

use std::time::Duration;

/// How much is measured.
pub(crate) struct Effort {
    /// Rounds of each figure.
    pub(crate) rounds: usize,
    /// Length of a round of heartbeats.
    pub(crate) round: Duration,
}

impl Effort {
    /// About a minute altogether.
    pub(crate) fn full() -> Self {
        Self {
            rounds: 5,
            round: Duration::from_millis(700),
        }
    }

    /// A few seconds altogether.
    pub(crate) fn quick() -> Self {
        Self {
            rounds: 1,
            round: Duration::from_millis(200),
        }
    }
}

/// The middle one of some figures; 0 of none.
pub(crate) fn median(figures: &[f64]) -> f64 {
    quantile(figures, 0.5)
}

/// The figure below which this part of all figures lies; 0 of none.
pub(crate) fn quantile(figures: &[f64], part: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let position = (part * last as f64).round() as usize;
    sorted.get(position).copied().unwrap_or(0.0)
}

/// Prints a heading and the names of the columns.
pub(crate) fn heading(title: &str, columns: &[&str]) {
    println!("{title}");
    row(columns.iter().map(ToString::to_string));
}

/// Prints one row: the first cell is a name, the others are figures.
pub(crate) fn row(cells: impl IntoIterator<Item = String>) {
    let cells: Vec<String> = cells
        .into_iter()
        .enumerate()
        .map(|(index, cell)| match index {
            0 => format!("  {cell:<34}"),
            _ => format!("{cell:>16}"),
        })
        .collect();
    println!("{}", cells.concat());
}
