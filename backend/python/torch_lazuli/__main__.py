"""`python -m torch_lazuli script.py`: see takeover/runner.py."""

from torch_lazuli.takeover.runner import main

if __name__ == "__main__":
    main()
