//! A pool as people look at it: who is there, who owns what, since when, and what just happened.
//!
//! While somebody watches a pool, one task reads it and draws a [`Picture`]; all who watch share it, and each is sent what is new
//! to it ([`watch`]). A row that did not change stays the same row in the next picture, so to find the difference
//! costs a comparison of pointers. Nothing is decided here, and nobody else waits for it.

mod bars;
mod follow;
pub(crate) mod overview;
mod picture;
pub(crate) mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use leasehold::Pool;
use leasehold::store::Store;
use tokio::sync::watch as signal;

use self::picture::Picture;
use crate::settings::Limits;

/// The boards that are being drawn.
#[derive(Debug, Default)]
pub(crate) struct Boards(Mutex<HashMap<Pool, Arc<Board>>>);

/// One pool's board. It is drawn for as long as somebody looks, and a while longer.
#[derive(Debug)]
pub(crate) struct Board {
    pictures: signal::Receiver<Arc<Picture>>,
    drawing: tokio::task::JoinHandle<()>,
}

impl Drop for Board {
    fn drop(&mut self) {
        self.drawing.abort();
    }
}

impl Boards {
    /// The board of a pool, drawn from now on if nobody looked before.
    pub(crate) fn of(&self, pool: &Pool, store: &Arc<dyn Store>, limits: &Limits) -> Arc<Board> {
        let mut boards = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        boards.retain(|_, board| !board.drawing.is_finished());
        if let Some(board) = boards.get(pool) {
            return Arc::clone(board);
        }
        let (told, pictures) = signal::channel(Arc::default());
        let drawing = tokio::spawn(follow::draw(pool.clone(), Arc::clone(store), limits.call, told));
        let board = Arc::new(Board { pictures, drawing });
        boards.insert(pool.clone(), Arc::clone(&board));
        board
    }
}
