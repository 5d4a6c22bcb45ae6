// Words of a command line.

/** One word for a POSIX shell, in quotes where it needs them. */
export const quoted = (text) => (/^(?!-)[\w.,:=/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
