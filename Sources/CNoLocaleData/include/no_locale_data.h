/* Nothing to be called: see no_locale_data.c. */
