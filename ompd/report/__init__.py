"""An HTML page about a program, with pictures and tables. Only its modules import jinja2.

``gather`` asks all questions at one moment. ``sections`` turns the answers into texts, tables and pictures; ``page``
combines them, and ``template`` fills the template in ``page/``. ``states`` chooses the colour of each thread. ``svg``
writes SVG elements for the pictures of ``waits``, ``teams``, ``icicle`` and ``histogram``. ``triage`` is the page of
another command. Only the commands that write pages import this package.
"""
