//! A drawing of braille characters: two by four dots in each place of a terminal.

/// Braille's dots by row and column, as the bits of its code points.
const DOTS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

/// The drawing.
pub(super) struct Canvas {
    columns: usize,
    rows: usize,
    places: Vec<Place>,
}

/// What stands in one place: a character of its own, or dots.
#[derive(Clone, Copy, Default)]
struct Place {
    dots: u8,
    mark: Option<char>,
    ink: Option<usize>,
}

impl Canvas {
    /// An empty drawing.
    pub(super) fn new(columns: usize, rows: usize) -> Canvas {
        Canvas { columns, rows, places: vec![Place::default(); columns * rows] }
    }

    /// Dots across and down.
    pub(super) fn dots(&self) -> (usize, usize) {
        (self.columns * 2, self.rows * 4)
    }

    fn place(&mut self, column: usize, row: usize) -> Option<&mut Place> {
        if column < self.columns { self.places.get_mut(row * self.columns + column) } else { None }
    }

    /// A dot; dots are counted from the upper left, and those outside are left out.
    fn dot(&mut self, x: f64, y: f64, ink: usize) {
        if x < 0.0 || y < 0.0 {
            return;
        }
        let (x, y) = (x as usize, y as usize);
        if let Some(place) = self.place(x / 2, y / 4) {
            place.dots |= DOTS[y % 4][x % 2];
            place.ink = Some(ink);
        }
    }

    /// A line between two places in dots, of `on` dots and `off` gaps in turns, which go on from `phase`; returns the
    /// phase at its end.
    pub(super) fn line(
        &mut self,
        from: (f64, f64),
        to: (f64, f64),
        (on, off): (usize, usize),
        phase: usize,
        ink: usize,
    ) -> usize {
        let (across, down) = (to.0 - from.0, to.1 - from.1);
        let steps = across.abs().max(down.abs()).ceil().max(1.0) as usize;
        for step in 0..=steps {
            if (phase + step) % (on + off) < on {
                let share = step as f64 / steps as f64;
                self.dot((from.0 + across * share).round(), (from.1 + down * share).round(), ink);
            }
        }
        phase + steps
    }

    /// A character at a place in dots, unless there is one already.
    pub(super) fn mark(&mut self, (x, y): (f64, f64), mark: char, ink: Option<usize>) {
        if x < 0.0 || y < 0.0 {
            return;
        }
        if let Some(place) =
            self.place(x.round() as usize / 2, y.round() as usize / 4).filter(|place| place.mark.is_none())
        {
            place.mark = Some(mark);
            place.ink = ink;
        }
    }

    /// A character in the first row, in the next free place from there on.
    pub(super) fn number(&mut self, x: f64, number: char) {
        let first = x.max(0.0).round() as usize / 2;
        let free = (first..self.columns).find(|column| self.places[*column].mark.is_none());
        if let Some(column) = free {
            self.places[column].mark = Some(number);
            self.places[column].ink = None;
        }
    }

    /// A character in a column from top to bottom, wherever there is nothing yet.
    pub(super) fn vertical(&mut self, x: f64, mark: char) {
        for row in 0..self.rows {
            if let Some(place) =
                self.place(x.max(0.0).round() as usize / 2, row).filter(|p| p.dots == 0 && p.mark.is_none())
            {
                place.mark = Some(mark);
            }
        }
    }

    /// The characters of a row, each with its ink.
    pub(super) fn row(&self, row: usize) -> impl Iterator<Item = (char, Option<usize>)> + '_ {
        self.places[row * self.columns..(row + 1) * self.columns].iter().map(|place| {
            let dots = match place.dots {
                0 => ' ',
                dots => char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' '),
            };
            (place.mark.unwrap_or(dots), place.ink)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(canvas: &Canvas, row: usize) -> String {
        canvas.row(row).map(|(character, _)| character).collect()
    }

    #[test]
    fn lines_become_dots() {
        let mut canvas = Canvas::new(3, 2);
        assert_eq!(canvas.dots(), (6, 8));
        let phase = canvas.line((0.0, 0.0), (5.0, 0.0), (1, 0), 0, 4);
        assert_eq!(phase, 5);
        assert_eq!(text(&canvas, 0), "⠉⠉⠉");
        canvas.line((0.0, 4.0), (5.0, 4.0), (1, 1), 0, 0);
        assert_eq!(text(&canvas, 1), "⠁⠁⠁");
        assert!(canvas.row(0).all(|(_, ink)| ink == Some(4)));
    }

    #[test]
    fn marks_stand_before_dots_and_nothing_lands_outside() {
        let mut canvas = Canvas::new(2, 1);
        canvas.line((-9.0, -9.0), (50.0, 50.0), (1, 0), 0, 0);
        canvas.mark((0.0, 0.0), 'a', Some(1));
        canvas.mark((1.0, 1.0), 'b', Some(2));
        canvas.mark((9.0, 9.0), 'c', None);
        canvas.vertical(2.0, '┊');
        assert_eq!(canvas.row(0).next(), Some(('a', Some(1))));
        canvas.vertical(99.0, '┊');
        assert_eq!(text(&canvas, 0).chars().count(), 2);
    }
}
