//! Points in time, as the store keeps them: seconds since the epoch, with a fraction.

use std::ops::{Add, Sub};

/// Seconds since the Unix epoch. The store's REAL columns hold exactly this number.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Timestamp(pub f64);

impl Timestamp {
    /// The last second of the year 9999. What lies beyond was meant otherwise: milliseconds, a date written as one number,
    /// an overflow.
    pub const LAST: Self = Self(253_402_300_799.0);

    /// Takes a number out of a store: no point in time is after [`Self::LAST`], or as far before the epoch.
    #[must_use]
    pub fn parse(seconds: f64) -> Option<Self> {
        (seconds.abs() <= Self::LAST.0).then_some(Self(seconds))
    }

    /// Whole seconds, as boards and envelopes count them (rounded towards the past).
    #[must_use]
    pub fn whole_seconds(self) -> i64 {
        // A float cast saturates, so no value of a corrupt column can overflow here.
        self.0.floor() as i64
    }

    /// The later of two points.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if other.0 > self.0 { other } else { self }
    }

    /// The earlier of two points.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        if other.0 < self.0 { other } else { self }
    }
}

impl From<i64> for Timestamp {
    fn from(seconds: i64) -> Self {
        Self(seconds as f64)
    }
}

/// Adds seconds.
impl Add<f64> for Timestamp {
    type Output = Self;

    fn add(self, seconds: f64) -> Self {
        Self(self.0 + seconds)
    }
}

/// Seconds between two points.
impl Sub for Timestamp {
    type Output = f64;

    fn sub(self, earlier: Self) -> f64 {
        self.0 - earlier.0
    }
}
