//! `/api/v1/pools/{pool}/plan` and `/act`: what an operator's act would move, and doing it.

use axum::extract::State;
use axum::http::StatusCode;
use leasehold::operate::{self, Act, Outcome, Preview, Word};
use leasehold::view::View;
use leasehold::{MemberName, Pool, ResourceId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::InPool;
use super::forms::PoolPath;
use crate::app::App;
use crate::problem::{Answer, Problem, ProblemBody};
use crate::request::Json;

/// What to do, or to look at.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActBody {
    /// The word for it, as on the command line.
    act: Word,
    /// The member, by name: for `drain`, `undrain`, `cordon`, `uncordon` and `pin`.
    member: Option<MemberName>,
    /// The resource: for `pin`, `unpin`, `pause`, `resume` and `revoke`.
    resource: Option<ResourceId>,
    /// What the preview had as its `basis`: the act is then done to what was looked at, or not at all.
    basis: Option<u64>,
}

/// What was done.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ActDone {
    /// What is so now, in a sentence.
    sentence: String,
    /// Whether it was so before, and nothing was changed.
    already: bool,
    /// The word that takes it back, where that is possible.
    undo: Option<Word>,
}

impl ActBody {
    fn act(&self) -> Answer<Act> {
        let act = Act::new(self.act, self.member.clone(), self.resource.clone());
        act.map_err(|error| Problem::invalid(error.to_string()))
    }
}

/// What an act would move
///
/// By the plan that the members compute themselves. Nothing is changed.
#[utoipa::path(post, path = "/api/v1/pools/{pool}/plan", operation_id = "plan_act", tag = "operate", request_body = ActBody, params(PoolPath), responses(
    (status = 200, description = "what would change hands", body = Preview),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn plan(
    State(app): State<App>,
    within: InPool,
    Json(body): Json<ActBody>,
) -> Answer<axum::Json<Preview>> {
    let act = body.act()?;
    let shown = Pool::new(&within.name).map_err(|error| Problem::invalid(error.to_string()))?;
    // To look makes no pool.
    let preview = match app.holders().desk_if_known(&within.pool).await? {
        Some(desk) => Preview::of(&shown, &desk.fresh().await?.view, &act),
        None => Preview::of(&shown, &View::new(within.pool), &act),
    };
    Ok(axum::Json(preview))
}

/// Do it
///
/// Drain or undrain a member, cordon, pin, pause, revoke, resign: the words are those of the command line. The ledger
/// says who did it. What is so already stays so. With a `basis` that is not the present one nothing is done (409).
#[utoipa::path(post, path = "/api/v1/pools/{pool}/act", operation_id = "act", tag = "operate", request_body = ActBody, params(PoolPath), responses(
    (status = 200, description = "done, or so already", body = ActDone),
    (status = 409, description = "somebody else was faster, or it cannot be done at present", body = ProblemBody),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn act(
    State(app): State<App>,
    within: InPool,
    Json(body): Json<ActBody>,
) -> Answer<axum::Json<ActDone>> {
    let act = body.act()?;
    let desk = within.desk(&app)?;
    let who = within.identity.who();
    // Whoever goes away while it is done does not leave it half done.
    let doing = tokio::spawn(async move {
        let outcome = operate::perform(&**app.store(), desk.pool(), &act, body.basis).await?;
        if outcome == Outcome::Done {
            desk.note_act(&act, &who);
        }
        Ok::<_, Problem>((act, outcome))
    });
    let lost = |_| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "look whether it was done");
    let (act, outcome) = doing.await.map_err(lost)??;
    let conflict = |word, said: String| Err(Problem::new(StatusCode::CONFLICT, word, said));
    match outcome {
        Outcome::Done | Outcome::Already => Ok(axum::Json(ActDone {
            sentence: act.sentence(),
            already: outcome == Outcome::Already,
            undo: act.undo().map(|undo| undo.word()),
        })),
        Outcome::Changed => {
            let said = "somebody else changed this since you looked; look again at what would move";
            conflict("changed_meanwhile", said.to_owned())
        }
        Outcome::Refused(said) => conflict("refused", said),
    }
}
