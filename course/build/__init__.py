"""From lesson sources to notebooks, and from notebooks to a student's folder.

`python -m course.build build` reads `course/lessons/*.md` and writes executed notebooks, `check` says in seconds
whether they are still in step and clean, `work` lays output-free copies for a student, `lab` opens JupyterLab there.
"""
