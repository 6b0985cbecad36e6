//! Ids as an OpenAPI document shows them.

use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::lease::{ID_MAX, MemberId, MemberName, Pool, ResourceId};

/// Text of a certain form.
pub(crate) fn text(pattern: &str, length_max: usize, description: &str) -> RefOr<Schema> {
    let text = ObjectBuilder::new().schema_type(SchemaType::Type(Type::String));
    let text = text.min_length(Some(1)).max_length(Some(length_max)).pattern(Some(pattern));
    text.description(Some(description)).build().into()
}

macro_rules! id_schemas {
    ($($name:ident, $pattern:literal, $description:literal;)*) => {
        $(
            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    text($pattern, ID_MAX, $description)
                }
            }

            impl ToSchema for $name {}
        )*
    };
}

id_schemas! {
    Pool, "^[A-Za-z0-9._-]+$", "A set of resources that a group of members shares out.";
    ResourceId, "^[A-Za-z0-9._:@+=-]+$", "One piece of work in a pool.";
    MemberName, "^[A-Za-z0-9._-]+$", "The stable name of a member.";
    MemberId, "^[A-Za-z0-9._-]+$", "One incarnation of a member; its session carries the same id.";
}
