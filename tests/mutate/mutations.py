"""Every mistake in the package that the tests must notice."""

from tests.mutate import of_the_data, of_the_model, of_the_update, of_what_is_kept

MUTATIONS = (
    *of_the_data.MUTATIONS,
    *of_the_model.MUTATIONS,
    *of_the_update.MUTATIONS,
    *of_what_is_kept.MUTATIONS,
)
