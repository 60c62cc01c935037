//! A node that is held and what watches over it, together: whoever drops the last of them gives it back.

use std::sync::Arc;

use crate::error::RecipeError;
use crate::hold::{FencingToken, Holding, LossReason, Terms, Watched};
use crate::line::Ticket;

/// One hold, shared by all guards that stand for it.
#[derive(Debug)]
pub(crate) struct Hold {
    // Dropped in this order: those who depend on it are told, then the node goes, then the watch over it,
    // which has fired by then and need not be taken back.
    end: EndOnDrop,
    ticket: Ticket,
    watched: Watched,
}

/// Tells those who depend on a hold that it is over.
#[derive(Debug)]
struct EndOnDrop(Holding);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end(LossReason::Released);
    }
}

impl Hold {
    /// Begins with a node whose turn it is.
    pub(crate) fn begin(ticket: Ticket, terms: Terms) -> Hold {
        let token = FencingToken(ticket.stat().czxid);
        Hold::with_token(ticket, token, terms)
    }

    /// Begins with a node that continues an earlier hold.
    pub(crate) fn with_token(ticket: Ticket, token: FencingToken, terms: Terms) -> Hold {
        let watched = Watched::begin(ticket.client(), ticket.path(), ticket.stat(), token, terms);
        Hold { end: EndOnDrop(watched.holding().clone()), ticket, watched }
    }

    pub(crate) fn holding(&self) -> &Holding {
        self.watched.holding()
    }

    /// Ends the hold, then deletes the node and waits for the answer.
    pub(crate) async fn release(self) -> Result<(), RecipeError> {
        let Hold { end, ticket, watched } = self;
        drop(end);
        ticket.give_back().await?;
        drop(watched);
        Ok(())
    }

    /// Ends the hold without deleting the node: somebody else has seen to it.
    pub(crate) fn dissolve(self) {
        self.ticket.forget();
    }

    /// Releases it if nobody else shares it.
    pub(crate) async fn release_shared(hold: Arc<Hold>) -> Result<(), RecipeError> {
        match Arc::into_inner(hold) {
            Some(hold) => hold.release().await,
            None => Ok(()),
        }
    }
}
