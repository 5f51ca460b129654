//! The terminal while `top` draws on it.

use std::io::{self, IsTerminal, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::Print;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{execute, queue};

/// The terminal's other screen; dropping this brings the first one back.
pub(super) struct Screen {
    quit: Arc<AtomicBool>,
    is_raw: bool,
}

impl Screen {
    /// Takes the terminal over.
    pub(super) fn open() -> io::Result<Screen> {
        let quit = Arc::new(AtomicBool::new(false));
        let is_raw = io::stdin().is_terminal() && enable_raw_mode().is_ok();
        let screen = Screen { quit: Arc::clone(&quit), is_raw };
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        if is_raw {
            // It ends with the program: a read from a terminal cannot be called off.
            thread::spawn(move || {
                let quits = |byte: &u8| matches!(byte, b'q' | b'Q' | 0x03 | 0x1b);
                let found = io::stdin().lock().bytes().map_while(Result::ok).any(|byte| quits(&byte));
                quit.store(found, Ordering::Relaxed);
            });
        }
        Ok(screen)
    }

    /// Whether the user pressed `q`, Escape or Ctrl-C.
    pub(super) fn quits(&self) -> bool {
        self.quit.load(Ordering::Relaxed)
    }

    /// Draws text from the upper left corner; what does not fit is left out.
    pub(super) fn draw(&self, text: &str) -> io::Result<()> {
        let (columns, rows) = size().unwrap_or((80, 24));
        let mut out = io::stdout().lock();
        for (row, line) in text.lines().take(rows.into()).enumerate() {
            let line: String = line.chars().take(columns.into()).collect();
            // Rows are counted in 16 bits.
            let row = u16::try_from(row).unwrap_or(u16::MAX);
            queue!(out, MoveTo(0, row), Print(line), Clear(ClearType::UntilNewLine))?;
        }
        queue!(out, Clear(ClearType::FromCursorDown))?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
        if self.is_raw {
            let _ = disable_raw_mode();
        }
    }
}
