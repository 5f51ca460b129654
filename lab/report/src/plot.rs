//! Plots, as data.

use serde::{Deserialize, Serialize};

/// A plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// What a reader should look at.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
    /// Places on the horizontal axis worth a mark.
    pub crossings: Vec<Crossing>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// What is on it, with the unit: `operations a batch`.
    pub label: String,
    /// How values are spread over it.
    pub scale: Scale,
}

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Evenly, from zero.
    Linear,
    /// Powers of two are evenly spaced; values below or at zero are left out.
    Log2,
    /// Powers of ten are evenly spaced; values below or at zero are left out.
    Log10,
}

/// A line of a plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// What it is.
    pub name: String,
    /// How it is drawn.
    pub look: Look,
    /// Its points, from left to right.
    pub points: Vec<[f64; 2]>,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Look {
    /// Measured here: a line with points.
    Measured,
    /// A model fitted to what was measured: a thin line.
    Fitted,
    /// From a paper or another machine: points with a dashed line.
    Cited,
}

/// A place on the horizontal axis where one line overtakes another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crossing {
    /// Where.
    pub x: f64,
    /// What happens there.
    pub label: String,
}

impl Plot {
    /// An empty plot.
    pub fn new(title: &str, x: Axis, y: Axis) -> Plot {
        let (title, caption) = (title.to_owned(), String::new());
        Plot { title, caption, x, y, series: Vec::new(), crossings: Vec::new() }
    }
}

impl Axis {
    /// An axis.
    pub fn new(label: &str, scale: Scale) -> Axis {
        Axis { label: label.to_owned(), scale }
    }
}

impl Series {
    /// A line.
    pub fn new(name: impl Into<String>, look: Look, points: Vec<[f64; 2]>) -> Series {
        Series { name: name.into(), look, points }
    }
}
