"""The command lines, thin: `tinyrmc NAME` is `main` of the module NAME."""
