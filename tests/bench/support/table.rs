//! The one place that prints: a figure, its goal or peer, and how they compare.

use super::figures::{median, quantile};

/// What a figure should be.
#[derive(Clone, Copy)]
enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

/// One figure: the medians of its rounds, next to those of a peer that was measured in the same rounds.
///
/// With a peer the goal is one for the ratio of the two, which is taken round by round; else it is one for the figure,
/// and the ratio tells how much of the goal the figure is.
pub(crate) struct Line {
    what: String,
    unit: &'static str,
    figures: Vec<f64>,
    peer: Option<(&'static str, Vec<f64>)>,
    goal: Option<Goal>,
    note: String,
}

impl Line {
    /// A figure, one for each round.
    pub(crate) fn new(what: impl Into<String>, unit: &'static str, figures: Vec<f64>) -> Self {
        Self {
            what: what.into(),
            unit,
            figures,
            peer: None,
            goal: None,
            note: String::new(),
        }
    }

    /// A figure that cannot be had, and why.
    pub(crate) fn missing(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(what, "", Vec::new()).note(why)
    }

    /// The figure that it is compared with, one for each round.
    pub(crate) fn against(mut self, name: &'static str, figures: Vec<f64>) -> Self {
        self.peer = Some((name, figures));
        self
    }

    /// The least that is good.
    pub(crate) fn at_least(mut self, limit: f64) -> Self {
        self.goal = Some(Goal::AtLeast(limit));
        self
    }

    /// The most that is good.
    pub(crate) fn at_most(mut self, limit: f64) -> Self {
        self.goal = Some(Goal::AtMost(limit));
        self
    }

    /// What else there is to say.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Figure by peer, or figure by goal.
    fn ratio(&self) -> Option<f64> {
        if let Some((_, peers)) = &self.peer {
            let pairs = self.figures.iter().zip(peers);
            return Some(median(
                &pairs.map(|(one, other)| one / other).collect::<Vec<_>>(),
            ));
        }
        match self.goal? {
            Goal::AtLeast(limit) | Goal::AtMost(limit) => Some(median(&self.figures) / limit),
        }
    }

    /// What is held against the goal.
    fn judged(&self) -> Option<f64> {
        match self.peer {
            Some(_) => self.ratio(),
            None => Some(median(&self.figures)),
        }
    }

    fn verdict(&self) -> &'static str {
        let is_met = match (self.goal, self.judged()) {
            (Some(Goal::AtLeast(limit)), Some(judged)) => judged >= limit,
            (Some(Goal::AtMost(limit)), Some(judged)) => judged <= limit,
            _ => return "",
        };
        if is_met { "met" } else { "MISSED" }
    }

    /// Prints it.
    pub(crate) fn print(&self) {
        if self.figures.is_empty() {
            return println!("  {:<46} {}", self.what, self.note);
        }
        let figure = format!("{} {}", number(median(&self.figures)), self.unit);
        let peer = self
            .peer
            .as_ref()
            .map(|(name, figures)| format!("{name} {}", number(median(figures))));
        let ratio = self.ratio().map(number);
        let goal = self.goal.map(|goal| match goal {
            Goal::AtLeast(limit) => format!(">= {}", number(limit)),
            Goal::AtMost(limit) => format!("<= {}", number(limit)),
        });
        let line = format!(
            "  {:<46} {figure:>16} {:>24} {:>8} {:>10} {:>7}  {}",
            self.what,
            peer.unwrap_or_default(),
            ratio.unwrap_or_default(),
            goal.unwrap_or_default(),
            self.verdict(),
            self.note
        );
        println!("{}", line.trim_end());
    }
}

/// Prints what comes, how long a single commit takes here at this moment, and the names of the columns.
pub(crate) fn heading(numbers: &str, title: &str, commit_millis: &[f64]) {
    println!("{numbers}: {title}");
    let disk = format!(
        "(a commit now: p50 {} ms, p99 {} ms)",
        number(median(commit_millis)),
        number(quantile(commit_millis, 0.99))
    );
    println!(
        "  {disk:<46} {:>16} {:>24} {:>8} {:>10}",
        "figure", "peer", "ratio", "goal"
    );
}

/// Three digits that matter.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        large if large >= 100.0 => 0,
        medium if medium >= 10.0 => 1,
        small if small >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}
